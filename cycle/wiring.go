package cycle

import (
	"agentstateloop/cycle/files"
	"agentstateloop/cycle/prompt"
	"agentstateloop/cycle/quarantine"
	"agentstateloop/cycle/view"
	"agentstateloop/mail"
	"agentstateloop/mail/trust"
)

// The functions below make an agent's parts, those with the fewest dependencies first. A part
// holds the dependencies of its job and no others; it never holds the Agent. A part holds other
// parts by pointer, so that it stays small. See docs/decisions/0017-types-and-packages.md.

func (a *Agent) core() core {
	return core{handle: a.Handle, store: a.Store, policy: &a.Policy, now: a.Now, secrets: a.Secrets}
}
func (a *Agent) idKeys() idKeys { return idKeys{core: a.core()} }
func (a *Agent) renderer() *renderer {
	return &renderer{core: a.core(), mail: a.Mail, replies: a.Replies, idKeys: a.idKeys(), hooks: a.Hooks}
}
func (a *Agent) journal() *journal {
	return &journal{
		core: a.core(), renderer: a.renderer(), announcer: a.announcer(), announced: &a.announced, turnFailed: &a.turnFailed,
	}
}
func (a *Agent) announcer() announcer { return announcer{core: a.core(), mesh: a.Mesh} }
func (a *Agent) hooks() *hooks {
	return &hooks{
		core: a.core(), all: a.Hooks, standIn: a.CallHook, journal: a.journal(), checkEvery: checkInterval(a), detacher: a.detacher(),
		announced: &a.announced,
	}
}
func (a *Agent) heartbeats() heartbeats {
	return heartbeats{core: a.core(), monitor: a.Heartbeat, turnFailed: &a.turnFailed}
}
func (a *Agent) clockPrompts() *clockPrompts {
	return &clockPrompts{
		core: a.core(), all: a.ClockPrompts, standIn: a.AskPrompt, journal: a.journal(), detacher: a.detacher(), flusher: a.flusher(),
	}
}
func (a *Agent) crontab() *crontab {
	return &crontab{core: a.core(), config: a.Config, schedule: a.Schedule}
}
func (a *Agent) detacher() detacher { return detacher{self: a.Self, secrets: a.Secrets} }
func (a *Agent) fileChecker() fileChecker {
	return fileChecker{store: a.Store, quarantine: a.View().Quarantined}
}
func (a *Agent) launcher() launcher {
	return launcher{standIn: a.RunTurn, config: a.Config, handle: a.Handle, relay: a.Relay, explain: a.Explain}
}
func (a *Agent) awaiter() *awaiter         { return &awaiter{journal: a.journal()} }
func (a *Agent) reportTaker() *reportTaker { return &reportTaker{core: a.core(), journal: a.journal()} }
func (a *Agent) turnGuard() turnGuard      { return turnGuard{core: a.core(), checkEvery: checkInterval(a)} }

// The prompts, costs and deliverables of turns.

func (a *Agent) biller(b backend) *biller {
	return &biller{core: a.core(), turn: b.turn, prices: a.Prices}
}
func (a *Agent) sessions(b backend) sessions { return sessions{turn: b.turn, window: b.window} }
func (a *Agent) recaller() recaller          { return recaller{core: a.core(), room: a.Recall} }
func (a *Agent) prompter(b backend) *prompter {
	return &prompter{
		core: a.core(), turn: b.turn, templates: prompt.Templates{Folder: a.Prompts}, sessions: a.sessions(b), biller: a.biller(b),
	}
}
func (a *Agent) promptViewer() *promptViewer {
	return &promptViewer{prompter: a.prompter(a.mainBackend()), recaller: a.recaller()}
}
func (a *Agent) deliverer(b backend) *deliverer {
	return &deliverer{
		core: a.core(), backend: b, journal: a.journal(), replier: a.replier(), sessions: a.sessions(b), biller: a.biller(b),
	}
}
func (a *Agent) replier() *replier {
	return &replier{core: a.core(), mail: a.Mail, renderer: a.renderer()}
}
func (a *Agent) turnEnder(b backend) *turnEnder {
	return &turnEnder{
		core: a.core(), journal: a.journal(), deliverer: a.deliverer(b), backend: b, sessions: a.sessions(b), biller: a.biller(b),
	}
}

// The parts that run turns.

// mainBackend is the backend that runs turns unless it has an outage.
func (a *Agent) mainBackend() backend {
	return backend{policy: &a.Policy, turn: a.Turn, rights: a.Rights, kinds: a.Kinds, window: a.Window}
}
func (a *Agent) watchdog() *watchdog {
	return &watchdog{core: a.core(), ender: a.turnEnder(a.mainBackend())}
}
func (a *Agent) summaryMaker(b backend) *summaryMaker {
	return &summaryMaker{
		core: a.core(), turn: b.turn, summary: a.Summary, rights: b.rights, launcher: a.launcher(), prompter: a.prompter(b),
		sessions: a.sessions(b), recaller: recaller{core: a.core(), room: maxSummarized},
	}
}
func (a *Agent) compactor(b backend) *compactor {
	return &compactor{
		core: a.core(), guard: a.turnGuard(), journal: a.journal(), watchdog: a.watchdog(), summaries: a.summaryMaker(b), backend: b,
		sessions: a.sessions(b), biller: a.biller(b),
	}
}
func (a *Agent) granter(b backend) granter {
	return granter{turn: b.turn, store: a.Store, rights: b.rights, kinds: b.kinds, prompts: a.ClockPrompts}
}
func (a *Agent) attempter(b backend) *attempter {
	return &attempter{
		core: a.core(), turn: b.turn, granter: a.granter(b), guard: a.turnGuard(), launcher: a.launcher(), journal: a.journal(),
		prompter: a.prompter(b), recaller: a.recaller(), compactor: a.compactor(b), deliverer: a.deliverer(b), ender: a.turnEnder(b),
		sessions: a.sessions(b), biller: a.biller(b),
	}
}
func (a *Agent) ackTimer() *ackTimer {
	return &ackTimer{core: a.core(), journal: a.journal(), flusher: a.flusher(), checkEvery: checkInterval(a)}
}
func (a *Agent) runner() *runner {
	return &runner{
		core: a.core(), turn: a.Turn, journal: a.journal(), watchdog: a.watchdog(), guard: a.payloadGuard(), compactor: a.compactor(a.mainBackend()),
		attempts: attempters(a), flusher: a.flusher(), acks: a.ackTimer(),
	}
}
func (a *Agent) answerTaker() *answerTaker { return &answerTaker{core: a.core(), journal: a.journal()} }
func (a *Agent) operatorAsker() *operatorAsker {
	return &operatorAsker{
		handle: a.Handle, operator: a.Policy.Operator, mail: a.Mail, journal: a.journal(), flusher: a.flusher(),
	}
}
func (a *Agent) permitter() permitter {
	return permitter{journal: a.journal(), prompter: a.prompter(a.mainBackend()), asker: a.operatorAsker()}
}
func (a *Agent) puller() *puller {
	return &puller{
		core: a.core(), journal: a.journal(), watchdog: a.watchdog(), guard: a.payloadGuard(), deliverer: a.deliverer(a.mainBackend()),
		flusher: a.flusher(),
	}
}

// The steps of a cycle.

func (a *Agent) accepter() accepter {
	return accepter{
		core: a.core(), operator: a.Policy.Operator, mail: a.Mail, mesh: a.Mesh, idKeys: a.idKeys(), byThread: a.Policy.ByThread,
	}
}
func (a *Agent) observer(session *mailSession) *observer {
	return &observer{
		core: a.core(), mail: a.Mail, mesh: a.Mesh, session: session, accepter: a.accepter(), idKeys: a.idKeys(),
	}
}
func (a *Agent) quarantine() quarantine.Folder { return quarantine.Folder{Store: a.Store} }
func (a *Agent) sweeper() *sweeper             { return &sweeper{folder: a.quarantine(), journal: a.journal()} }
func (a *Agent) challenger() *challenger {
	return &challenger{core: a.core(), journal: a.journal(), renderer: a.renderer(), sweeper: a.sweeper()}
}
func (a *Agent) projector() *projector {
	return &projector{core: a.core(), mail: a.Mail, mesh: a.Mesh, journal: a.journal(), crontab: a.crontab()}
}
func (a *Agent) performer() *performer {
	return &performer{
		core: a.core(), mail: a.Mail, mesh: a.Mesh, journal: a.journal(), mender: a.effectMender(),
	}
}
func (a *Agent) effectMender() *effectMender {
	return &effectMender{core: a.core(), renderer: a.renderer(), replier: a.replier()}
}
func (a *Agent) payloadGuard() *payloadGuard {
	return &payloadGuard{core: a.core(), journal: a.journal()}
}
func (a *Agent) flusher() *flusher {
	return &flusher{
		core: a.core(), crontab: a.crontab(), projector: a.projector(), performer: a.performer(), detacher: a.detacher(), filer: a.filer(),
	}
}
func (a *Agent) outbox() *outbox {
	return &outbox{core: a.core(), journal: a.journal(), flusher: a.flusher(), hooks: a.hooks()}
}
func (a *Agent) pruner() *pruner { return &pruner{core: a.core(), keep: a.Keep, journal: a.journal()} }

// The complete cycle.

func (a *Agent) oneCycle(session *mailSession) *oneCycle {
	return &oneCycle{
		core: a.core(), journal: a.journal(), watchdog: a.watchdog(), observer: a.observer(session), sweeper: a.sweeper(),
		projector: a.projector(), challenger: a.challenger(), performer: a.performer(), pruner: a.pruner(),
	}
}
func (a *Agent) largeMail() *largeMail {
	return &largeMail{
		core: a.core(), mail: a.Mail, observer: a.observer(new(mailSession)), journal: a.journal(), flusher: a.flusher(),
	}
}
func (a *Agent) poller(session *mailSession) *poller {
	return &poller{
		core: a.core(), cycle: a.oneCycle(session), crontab: a.crontab(), flusher: a.flusher(), detacher: a.detacher(), runner: a.runner(),
		large: a.largeMail(), hooks: a.hooks(), heartbeats: a.heartbeats(), prompts: a.clockPrompts(),
	}
}
func (a *Agent) pollReasons() pollReasons { return pollReasons{core: a.core()} }
func (a *Agent) lingerer(mailbox *mail.Watch) *lingerer {
	return &lingerer{
		core: a.core(), mesh: a.Mesh, mailbox: mailbox, poller: a.poller(new(mailSession)), reasons: a.pollReasons(), runner: a.runner(),
		checkEvery: checkInterval(a),
	}
}
func (a *Agent) previewer() *previewer {
	return &previewer{
		core: a.core(), observer: a.observer(new(mailSession)).dryRun(), journal: a.journal(), renderer: a.renderer(), crontab: a.crontab(),
	}
}
func (a *Agent) outgoing() outgoing { return outgoing{core: a.core(), mesh: a.Mesh} }
func (a *Agent) planner() *planner {
	return &planner{core: a.core(), journal: a.journal(), flusher: a.flusher(), replier: a.replier()}
}
func (a *Agent) filer() *filer {
	return &filer{core: a.core(), mail: a.Mail, folder: a.Replies.Sent, journal: a.journal()}
}
func (a *Agent) outgoingFiles() files.Outgoing { return files.Outgoing{Store: a.Store} }

// The views for readers.

// View returns what reads the agent for people and programs.
func (a *Agent) View() view.Reader {
	r := view.Reader{
		Handle: a.Handle, Store: a.Store, Policy: &a.Policy, Now: a.Now, Turn: a.Turn, ReadsMail: a.Mail != nil,
		ProvesMail: a.Mail != nil && a.Mail.Filter.Require != trust.RequireFrom, Unscheduled: a.Schedule.Mode == ModeNone,
		Quarantine: a.quarantine(), CheckEvery: checkInterval(a), Schedule: a.crontab().status,
	}
	if a.Mesh != nil {
		r.Mesh = a.Mesh.Carrier.Address()
	}
	return r
}
