package cycle

import (
	"agentstateloop/cycle/prompt"
	"agentstateloop/cycle/quarantine"
	"agentstateloop/mail"
)

// How an agent's parts are made, those that need least first. A part holds what
// its job uses and nothing else; none holds the Agent. A part that holds others
// does so by pointer, so that it stays small.
// See docs/decisions/0017-a-type-for-each-job.md.

func (a *Agent) logger() logger {
	return logger{store: a.Store, now: a.Now, secrets: a.Secrets}
}

func (a *Agent) idKeys() idKeys {
	return idKeys{store: a.Store, now: a.Now, secrets: a.Secrets}
}

func (a *Agent) renderer() *renderer {
	return &renderer{
		handle: a.Handle, mail: a.Mail, replies: a.Replies, policy: &a.Policy, now: a.Now, store: a.Store, idKeys: a.idKeys(), hooks: a.Hooks, log: a.logger(),
	}
}

func (a *Agent) journal() *journal {
	return &journal{
		store: a.Store, policy: &a.Policy, now: a.Now, secrets: a.Secrets, renderer: a.renderer(), announcer: a.announcer(),
		announced: &a.announced, turnFailed: &a.turnFailed,
	}
}

func (a *Agent) announcer() announcer {
	return announcer{handle: a.Handle, mesh: a.Mesh, secrets: a.Secrets, log: a.logger()}
}

func (a *Agent) hooks() *hooks {
	return &hooks{
		all: a.Hooks, standIn: a.CallHook, store: a.Store, now: a.Now, secrets: a.Secrets, log: a.logger(), journal: a.journal(),
		checkEvery: checkInterval(a), detacher: a.detacher(), announced: &a.announced,
	}
}

func (a *Agent) heartbeats() heartbeats {
	return heartbeats{monitor: a.Heartbeat, store: a.Store, secrets: a.Secrets, log: a.logger(), turnFailed: &a.turnFailed}
}

func (a *Agent) clockPrompts() *clockPrompts {
	return &clockPrompts{
		all: a.Prompted, standIn: a.AskPrompt, store: a.Store, policy: &a.Policy, now: a.Now, secrets: a.Secrets, log: a.logger(),
		journal: a.journal(), detacher: a.detacher(), flusher: a.flusher(),
	}
}

func (a *Agent) crontab() *crontab {
	return &crontab{handle: a.Handle, config: a.Config, schedule: a.Schedule, policy: &a.Policy, store: a.Store, now: a.Now}
}

func (a *Agent) detacher() detacher {
	return detacher{self: a.Self, secrets: a.Secrets}
}

func (a *Agent) fileChecker() fileChecker {
	return fileChecker{store: a.Store, quarantine: a.Quarantine}
}

func (a *Agent) launcher() launcher {
	return launcher{standIn: a.RunTurn, config: a.Config, handle: a.Handle, relay: a.Relay, explain: a.Explain}
}

func (a *Agent) awaiter() *awaiter { return &awaiter{journal: a.journal()} }

func (a *Agent) reportTaker() *reportTaker {
	return &reportTaker{handle: a.Handle, now: a.Now, store: a.Store, journal: a.journal()}
}

func (a *Agent) turnGuard() turnGuard {
	return turnGuard{store: a.Store, secrets: a.Secrets, checkEvery: checkInterval(a)}
}

// What a turn is told, costs and hands back.

func (a *Agent) biller(b backend) *biller {
	return &biller{turn: b.turn, prices: a.Prices, policy: &a.Policy, now: a.Now, store: a.Store}
}

func (a *Agent) sessions(b backend) sessions {
	return sessions{turn: b.turn, window: b.window}
}

func (a *Agent) recaller() recaller {
	return recaller{store: a.Store, policy: &a.Policy, log: a.logger(), room: a.Recall}
}

func (a *Agent) prompter(b backend) *prompter {
	return &prompter{
		handle: a.Handle, turn: b.turn, policy: &a.Policy, now: a.Now, store: a.Store, log: a.logger(),
		templates: prompt.Templates{Folder: a.Prompts}, sessions: a.sessions(b), biller: a.biller(b),
	}
}

func (a *Agent) promptViewer() *promptViewer {
	return &promptViewer{prompter: a.prompter(a.usual()), recaller: a.recaller()}
}

func (a *Agent) deliverer(b backend) *deliverer {
	return &deliverer{
		store: a.Store, backend: b,
		journal: a.journal(), replier: a.replier(), sessions: a.sessions(b), biller: a.biller(b),
	}
}

func (a *Agent) replier() *replier {
	return &replier{handle: a.Handle, mail: a.Mail, now: a.Now, store: a.Store, renderer: a.renderer()}
}

func (a *Agent) turnEnder(b backend) *turnEnder {
	return &turnEnder{
		store: a.Store, policy: &a.Policy,
		journal: a.journal(), deliverer: a.deliverer(b), backend: b, sessions: a.sessions(b), biller: a.biller(b),
	}
}

// What runs turns.

// usual is the backend that runs turns unless it has an outage.
func (a *Agent) usual() backend {
	return backend{policy: &a.Policy, turn: a.Turn, rights: a.Rights, kinds: a.Kinds, window: a.Window}
}

func (a *Agent) watchdog() *watchdog {
	return &watchdog{store: a.Store, policy: &a.Policy, now: a.Now, log: a.logger(), ender: a.turnEnder(a.usual())}
}

func (a *Agent) summaryMaker(b backend) *summaryMaker {
	return &summaryMaker{
		store: a.Store, turn: b.turn, summary: a.Summary, rights: b.rights,
		launcher: a.launcher(), prompter: a.prompter(b), sessions: a.sessions(b),
		recaller: recaller{store: a.Store, policy: &a.Policy, log: a.logger(), room: maxSummarized},
	}
}

func (a *Agent) compactor(b backend) *compactor {
	return &compactor{
		store: a.Store, policy: &a.Policy, now: a.Now, secrets: a.Secrets, log: a.logger(), guard: a.turnGuard(),
		journal: a.journal(), watchdog: a.watchdog(), summaries: a.summaryMaker(b), backend: b, sessions: a.sessions(b), biller: a.biller(b),
	}
}

func (a *Agent) granter(b backend) granter {
	return granter{turn: b.turn, store: a.Store, rights: b.rights, kinds: b.kinds, prompts: a.Prompted}
}

func (a *Agent) attempter(b backend) *attempter {
	return &attempter{
		store: a.Store, turn: b.turn, granter: a.granter(b), guard: a.turnGuard(), launcher: a.launcher(),
		journal: a.journal(), prompter: a.prompter(b), recaller: a.recaller(), compactor: a.compactor(b),
		deliverer: a.deliverer(b), ender: a.turnEnder(b), sessions: a.sessions(b), biller: a.biller(b),
	}
}

func (a *Agent) ackTimer() *ackTimer {
	return &ackTimer{
		store: a.Store, policy: &a.Policy, now: a.Now, secrets: a.Secrets, log: a.logger(), journal: a.journal(), flusher: a.flusher(),
		checkEvery: checkInterval(a),
	}
}

func (a *Agent) runner() *runner {
	return &runner{
		store: a.Store, turn: a.Turn, policy: &a.Policy, now: a.Now, journal: a.journal(),
		watchdog: a.watchdog(), guard: a.payloadGuard(), compactor: a.compactor(a.usual()), attempts: attempters(a), flusher: a.flusher(),
		acks: a.ackTimer(),
	}
}

func (a *Agent) answerTaker() *answerTaker {
	return &answerTaker{now: a.Now, store: a.Store, journal: a.journal()}
}

func (a *Agent) operatorAsker() *operatorAsker {
	return &operatorAsker{handle: a.Handle, operator: a.Policy.Operator, mail: a.Mail, journal: a.journal(), flusher: a.flusher()}
}

func (a *Agent) permitter() permitter {
	return permitter{journal: a.journal(), prompter: a.prompter(a.usual()), asker: a.operatorAsker()}
}

func (a *Agent) puller() *puller {
	return &puller{
		store: a.Store, policy: &a.Policy, now: a.Now,
		journal: a.journal(), watchdog: a.watchdog(), guard: a.payloadGuard(), deliverer: a.deliverer(a.usual()), flusher: a.flusher(),
	}
}

// The steps of a cycle.

func (a *Agent) accepter() accepter {
	return accepter{store: a.Store, handle: a.Handle, operator: a.Policy.Operator, mail: a.Mail, mesh: a.Mesh, idKeys: a.idKeys(), byThread: a.Policy.ByThread}
}

func (a *Agent) observer(session *mailSession) *observer {
	return &observer{
		store: a.Store, mail: a.Mail, mesh: a.Mesh, policy: &a.Policy, now: a.Now, secrets: a.Secrets,
		session: session, accepter: a.accepter(), idKeys: a.idKeys(),
	}
}

func (a *Agent) quarantine() quarantine.Folder { return quarantine.Folder{Store: a.Store} }

func (a *Agent) sweeper() *sweeper {
	return &sweeper{folder: a.quarantine(), journal: a.journal()}
}

func (a *Agent) challenger() *challenger {
	return &challenger{
		handle: a.Handle, policy: &a.Policy, now: a.Now, store: a.Store,
		journal: a.journal(), renderer: a.renderer(), sweeper: a.sweeper(),
	}
}

func (a *Agent) projector() *projector {
	return &projector{
		handle: a.Handle, mail: a.Mail, mesh: a.Mesh, policy: &a.Policy, now: a.Now, store: a.Store,
		journal: a.journal(), crontab: a.crontab(),
	}
}

func (a *Agent) performer() *performer {
	return &performer{mail: a.Mail, mesh: a.Mesh, now: a.Now, store: a.Store, journal: a.journal(), log: a.logger(), mender: a.effectMender()}
}

func (a *Agent) effectMender() *effectMender {
	return &effectMender{now: a.Now, store: a.Store, renderer: a.renderer(), replier: a.replier()}
}

func (a *Agent) payloadGuard() *payloadGuard {
	return &payloadGuard{now: a.Now, store: a.Store, journal: a.journal()}
}

func (a *Agent) flusher() *flusher {
	return &flusher{
		store: a.Store, policy: &a.Policy, now: a.Now,
		crontab: a.crontab(), projector: a.projector(), performer: a.performer(), detacher: a.detacher(),
		filer: a.filer(),
	}
}

func (a *Agent) outbox() *outbox {
	return &outbox{store: a.Store, now: a.Now, journal: a.journal(), flusher: a.flusher(), hooks: a.hooks()}
}

func (a *Agent) pruner() *pruner {
	return &pruner{store: a.Store, keep: a.Keep, now: a.Now, journal: a.journal()}
}

// The whole of it.

func (a *Agent) oneCycle(session *mailSession) *oneCycle {
	return &oneCycle{
		store: a.Store, log: a.logger(), journal: a.journal(),
		watchdog: a.watchdog(), observer: a.observer(session), sweeper: a.sweeper(), projector: a.projector(),
		challenger: a.challenger(), performer: a.performer(), pruner: a.pruner(),
	}
}

func (a *Agent) largeMail() *largeMail {
	return &largeMail{
		store: a.Store, mail: a.Mail, now: a.Now, secrets: a.Secrets, log: a.logger(),
		observer: a.observer(new(mailSession)), journal: a.journal(), flusher: a.flusher(),
	}
}

func (a *Agent) poller(session *mailSession) *poller {
	return &poller{
		store: a.Store, policy: &a.Policy, now: a.Now, log: a.logger(),
		cycle: a.oneCycle(session), crontab: a.crontab(), flusher: a.flusher(), detacher: a.detacher(), runner: a.runner(),
		large: a.largeMail(), hooks: a.hooks(), heartbeats: a.heartbeats(), prompts: a.clockPrompts(),
	}
}

func (a *Agent) pollReasons() pollReasons {
	return pollReasons{store: a.Store, policy: &a.Policy, now: a.Now}
}

func (a *Agent) lingerer(mailbox *mail.Watch) *lingerer {
	return &lingerer{
		store: a.Store, mesh: a.Mesh, secrets: a.Secrets, mailbox: mailbox,
		poller: a.poller(new(mailSession)), reasons: a.pollReasons(), runner: a.runner(), checkEvery: checkInterval(a),
	}
}

func (a *Agent) previewer() *previewer {
	return &previewer{
		handle: a.Handle, store: a.Store, policy: &a.Policy, now: a.Now,
		observer: a.observer(new(mailSession)).dryRun(), journal: a.journal(), renderer: a.renderer(), crontab: a.crontab(),
	}
}

func (a *Agent) outgoing() outgoing {
	return outgoing{handle: a.Handle, mesh: a.Mesh, store: a.Store}
}

func (a *Agent) planner() *planner {
	return &planner{
		policy: &a.Policy, now: a.Now, store: a.Store, secrets: a.Secrets, journal: a.journal(), flusher: a.flusher(), replier: a.replier(),
	}
}

func (a *Agent) filer() *filer {
	return &filer{store: a.Store, mail: a.Mail, folder: a.Replies.Sent, now: a.Now, log: a.logger(), journal: a.journal()}
}

func (a *Agent) outgoingFiles() outgoingFiles { return outgoingFiles{store: a.Store} }

func (a *Agent) receipts() receipts {
	return receipts{store: a.Store, policy: &a.Policy, now: a.Now}
}

// What a reader is shown.

func (a *Agent) statusMaker() *statusMaker {
	return &statusMaker{
		handle: a.Handle, policy: &a.Policy, mail: a.Mail, mesh: a.Mesh, turn: a.Turn, now: a.Now, store: a.Store,
		crontab: a.crontab(), quarantine: a.quarantine(),
	}
}

func (a *Agent) waitReasons() waitReasons {
	return waitReasons{store: a.Store, turn: a.Turn, mail: a.Mail, policy: &a.Policy, schedule: a.Schedule, now: a.Now}
}

func (a *Agent) lister() lister {
	return lister{mail: a.Mail, heads: &headliner{store: a.Store}}
}
