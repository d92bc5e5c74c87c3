package state

// Word says what a history line records, within its kind. Words are data: they are on disk, in
// events and in the JSON of `history`, so they never change.
type Word string

// The words of history lines. Lines of some kinds have foreign text in their place: the crontab
// line (LineSchedule), the tier (LineTier), the kind of a note (LineNote), the status of a removed
// message (LineEnded), the control (LineControl). commands/present decides on a sentence for each.
const (
	WordCopy          Word = "a copy" // a rejected mail is in quarantine already
	WordAnswered      Word = "answered"
	WordAsked         Word = "asked"
	WordAsleep        Word = "asleep"
	WordAwait         Word = "await" // a turn waits for an answer
	WordBegun         Word = "begun"
	WordBlockerOver   Word = "blocker over"
	WordBlocker       Word = "blocker" // a credential failed in three cycles in a row
	WordDamaged       Word = "damaged"
	WordDelayed       Word = "delayed"
	WordDispatched    Word = "dispatched"
	WordDropped       Word = "dropped"
	WordEnded         Word = "ended"
	WordEnqueue       Word = "enqueue" // a message or a nudge came in, or a turn sends one
	WordExited        Word = "exited"
	WordExpected      Word = "expected"
	WordExpired       Word = "expired"
	WordFailed        Word = "failed"
	WordFailing       Word = "failing"
	WordFinished      Word = "finished"
	WordForgotten     Word = "forgotten"
	WordFreshSession  Word = "fresh session"
	WordGivenBack     Word = "given back"
	WordGo            Word = "go"
	WordHalt          Word = "halt"
	WordHeld          Word = "held"
	WordNoSummary     Word = "in vain" // a summary failed
	WordJoin          Word = "join"    // a turn has the answer that it waited for
	WordLapsed        Word = "lapsed"
	WordLost          Word = "lost"
	WordMade          Word = "made"
	WordMended        Word = "mended"
	WordMoved         Word = "moved"      // the agent was moved to another machine
	WordMovedBack     Word = "moved back" // a move was taken back
	WordMissed        Word = "missed"     // the time of a prompt or a deadline passed
	WordNext          Word = "next"       // a prompt has its next time
	WordNoAlarmLine   Word = "no alarm line"
	WordNotFiled      Word = "not filed"
	WordNotKept       Word = "not kept"   // a rejected message, because quarantine was full
	WordNotNeeded     Word = "not needed" // the ack of a message whose answer came first
	WordNotPermitted  Word = "not permitted"
	WordMissing       Word = "not there" // a damaged payload was not found again
	WordNothingWaits  Word = "nothing waits"
	WordOpened        Word = "opened" // credit counts from here on
	WordOut           Word = "out"
	WordOver          Word = "over" // a sleep ended before its time
	WordOvertaken     Word = "overtaken"
	WordPermitted     Word = "permitted"
	WordQueued        Word = "queued"
	WordReaped        Word = "reaped"
	WordRecovered     Word = "recovered"
	WordRefused       Word = "refused"
	WordRelay         Word = "relay"
	WordReleased      Word = "released"
	WordRemoved       Word = "removed"        // a prompt left the configuration, or the crontab lines were removed
	WordRenderedAgain Word = "rendered again" // a damaged effect was rendered again
	WordReport        Word = "report"         // an answer came in, or leaves
	WordRestored      Word = "restored"       // the state was restored from a backup
	WordRestoredRead  Word = "restored mail read"
	WordRetried       Word = "retried"
	WordRunning       Word = "running"
	WordSent          Word = "sent"
	WordDoubtful      Word = "signed, in doubt" // a rejected mail is signed, and has two readings
	WordSkipped       Word = "skipped"
	WordSpoiled       Word = "spoiled" // the mail of a challenge was damaged or never left; the operator is asked again
	WordStale         Word = "stale"   // an attempt that had lost its turn wrote
	WordStillFailing  Word = "still failing"
	WordStop          Word = "stop"
	WordSubmitted     Word = "submitted"
	WordSuspended     Word = "suspended"
	WordTookSeat      Word = "took the seat"     // another host of the agent acts now
	WordTwoMachines   Word = "two machines"      // another machine works as this agent
	WordOneMachine    Word = "one machine"       // a day without a sign of another machine
	WordToAsk         Word = "to be asked about" // the operator is asked about a rejected mail
	WordTold          Word = "told"              // a notice about lost mails was sent
	WordToppedUp      Word = "topped up"
	WordUndeliverable Word = "undeliverable"
	WordUnknown       Word = "unknown"
	WordWaits         Word = "waits"
	WordWantedAgain   Word = "wanted again" // the crontab lines are managed again after an uninstall
	WordWithdrawn     Word = "withdrawn"
	WordWorksAgain    Word = "works again"
	WordWorks         Word = "works"
)
