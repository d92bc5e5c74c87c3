package cycle

import (
	"agentstateloop/cycle/prompt"
	"agentstateloop/cycle/quarantine"
)

// The functions below make the parts that other parts share, those with the fewest dependencies
// first. A part that serves one verb is made next to its type. A part holds the dependencies of
// its job, never the Agent, and other parts by pointer (docs/decisions/0017-types-and-packages.md).

func (a *Agent) core() core {
	return core{handle: a.Handle, store: a.Store, policy: &a.Policy, now: a.Now, secrets: a.Secrets, stepFunc: a.Step, seat: a.Seat, endTurn: a.EndTurn}
}
func (a *Agent) committer() committer { return committer{core: a.core(), journal: a.journal()} }
func (a *Agent) idKeys() idKeys       { return idKeys{core: a.core()} }
func (a *Agent) renderer() *renderer {
	return &renderer{core: a.core(), mail: a.Mail, replies: a.Replies, idKeys: a.idKeys(), hooks: a.Hooks}
}
func (a *Agent) journal() *journal {
	return &journal{core: a.core(), renderer: a.renderer(), announcer: a.announcer(), announced: &a.announced, turnFailed: &a.turnFailed}
}
func (a *Agent) announcer() announcer { return announcer{core: a.core(), mesh: a.Mesh} }
func (a *Agent) hooks() *hooks {
	return &hooks{
		committer: a.committer(), all: a.Hooks, standIn: a.CallHook, checkEvery: checkInterval(a), detacher: a.detacher(),
		announced: &a.announced,
	}
}
func (a *Agent) heartbeats() heartbeats {
	return heartbeats{core: a.core(), monitor: a.Heartbeat, turnFailed: &a.turnFailed}
}
func (a *Agent) clockPrompts() *clockPrompts {
	return &clockPrompts{committer: a.committer(), all: a.ClockPrompts, standIn: a.AskPrompt, detacher: a.detacher(), flusher: a.flusher()}
}
func (a *Agent) crontab() *crontab {
	return &crontab{core: a.core(), config: a.Config, schedule: a.Schedule}
}
func (a *Agent) timers() *timers {
	return &timers{core: a.core(), journal: a.journal(), crontab: a.crontab(), config: a.Config, schedule: a.Schedule}
}
func (a *Agent) detacher() detacher { return detacher{self: a.Self, secrets: a.Secrets} }
func (a *Agent) launcher() launcher {
	return launcher{standIn: a.RunTurn, config: a.Config, handle: a.Handle, relay: a.Relay, explain: a.Explain}
}
func (a *Agent) turnGuard() turnGuard { return turnGuard{core: a.core(), checkEvery: checkInterval(a)} }

// The prompts, costs and deliverables of turns.

func (a *Agent) biller(b backend) *biller {
	return &biller{core: a.core(), turn: b.turn, prices: a.Prices}
}
func (a *Agent) sessions(b backend) sessions { return sessions{turn: b.turn, window: b.window} }
func (a *Agent) recaller() recaller          { return recaller{core: a.core(), room: a.Recall} }
func (a *Agent) prompter(b backend) *prompter {
	return &prompter{core: a.core(), turn: b.turn, templates: prompt.Templates{Folder: a.Prompts}, sessions: a.sessions(b), biller: a.biller(b)}
}
func (a *Agent) deliverer(b backend) *deliverer {
	return &deliverer{committer: a.committer(), backend: b, replier: a.replier(), sessions: a.sessions(b), biller: a.biller(b)}
}
func (a *Agent) replier() *replier {
	return &replier{core: a.core(), mail: a.Mail, renderer: a.renderer()}
}
func (a *Agent) turnEnder(b backend) *turnEnder {
	return &turnEnder{committer: a.committer(), deliverer: a.deliverer(b), backend: b, sessions: a.sessions(b), biller: a.biller(b)}
}

// The parts that run turns.

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
		committer: a.committer(), guard: a.turnGuard(), watchdog: a.watchdog(), summaries: a.summaryMaker(b), backend: b,
		sessions: a.sessions(b), biller: a.biller(b),
	}
}
func (a *Agent) granter(b backend) granter {
	return granter{turn: b.turn, store: a.Store, rights: b.rights, kinds: b.kinds, prompts: a.ClockPrompts}
}
func (a *Agent) attempter(b backend) *attempter {
	return &attempter{
		committer: a.committer(), turn: b.turn, granter: a.granter(b), guard: a.turnGuard(), launcher: a.launcher(),
		prompter: a.prompter(b), recaller: a.recaller(), compactor: a.compactor(b), deliverer: a.deliverer(b), ender: a.turnEnder(b),
		sessions: a.sessions(b), biller: a.biller(b),
	}
}
func (a *Agent) ackTimer() *ackTimer {
	return &ackTimer{committer: a.committer(), flusher: a.flusher(), checkEvery: checkInterval(a)}
}
func (a *Agent) runner() *runner {
	return &runner{
		committer: a.committer(), turn: a.Turn, watchdog: a.watchdog(), guard: a.payloadGuard(), compactor: a.compactor(a.mainBackend()),
		attempts: attempters(a), flusher: a.flusher(), acks: a.ackTimer(),
	}
}
func (a *Agent) operatorAsker() *operatorAsker {
	return &operatorAsker{handle: a.Handle, operator: a.Policy.Operator, mail: a.Mail, journal: a.journal(), flusher: a.flusher()}
}

// The steps of a cycle.

func (a *Agent) accepter() accepter {
	return accepter{core: a.core(), operator: a.Policy.Operator, mail: a.Mail, mesh: a.Mesh, idKeys: a.idKeys(), byThread: a.Policy.ByThread}
}
func (a *Agent) observer(session *mailSession) *observer {
	return &observer{core: a.core(), mail: a.Mail, mesh: a.Mesh, session: session, accepter: a.accepter(), idKeys: a.idKeys()}
}
func (a *Agent) quarantine() quarantine.Folder { return quarantine.Folder{Store: a.Store} }
func (a *Agent) sweeper() *sweeper             { return &sweeper{folder: a.quarantine(), journal: a.journal()} }
func (a *Agent) challenger() *challenger {
	return &challenger{committer: a.committer(), renderer: a.renderer(), sweeper: a.sweeper()}
}
func (a *Agent) projector() *projector {
	return &projector{committer: a.committer(), mail: a.Mail, mesh: a.Mesh, crontab: a.crontab()}
}
func (a *Agent) performer() *performer {
	return &performer{committer: a.committer(), mail: a.Mail, mesh: a.Mesh, mender: a.effectMender()}
}
func (a *Agent) effectMender() *effectMender {
	return &effectMender{core: a.core(), renderer: a.renderer(), replier: a.replier()}
}
func (a *Agent) payloadGuard() *payloadGuard { return &payloadGuard{committer: a.committer()} }
func (a *Agent) flusher() *flusher {
	return &flusher{core: a.core(), crontab: a.crontab(), projector: a.projector(), performer: a.performer(), detacher: a.detacher(), filer: a.filer()}
}
func (a *Agent) pruner() *pruner { return &pruner{committer: a.committer(), keep: a.Keep} }
func (a *Agent) oneCycle(session *mailSession) *oneCycle {
	return &oneCycle{
		committer: a.committer(), watchdog: a.watchdog(), observer: a.observer(session), sweeper: a.sweeper(),
		projector: a.projector(), challenger: a.challenger(), performer: a.performer(), pruner: a.pruner(),
	}
}
func (a *Agent) largeMail() *largeMail {
	return &largeMail{committer: a.committer(), mail: a.Mail, observer: a.observer(new(mailSession)), flusher: a.flusher()}
}
func (a *Agent) poller(session *mailSession) *poller {
	return &poller{
		core: a.core(), cycle: a.oneCycle(session), crontab: a.crontab(), flusher: a.flusher(), detacher: a.detacher(), runner: a.runner(),
		large: a.largeMail(), hooks: a.hooks(), heartbeats: a.heartbeats(), prompts: a.clockPrompts(), forwarder: a.forwarder(),
	}
}
func (a *Agent) pollReasons() pollReasons { return pollReasons{core: a.core()} }
func (a *Agent) filer() *filer {
	return &filer{committer: a.committer(), mail: a.Mail, folder: a.Replies.Sent}
}
