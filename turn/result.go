package turn

// Status is how a turn ended (DESIGN 6).
type Status string

// The endings. Partial means that the agent ended by itself but its answer is
// not whole: the stream broke off, the answer was cut, or there are files but
// no words.
const (
	Success  Status = "success"
	Failed   Status = "failed"
	Canceled Status = "canceled"
	TimedOut Status = "timeout"
	Partial  Status = "partial"
)

// Exit is why the agent's process ended, as events.jsonl has it.
type Exit string

// The exits.
const (
	ExitClean   Exit = "clean"   // by itself, with 0
	ExitIdle    Exit = "idle"    // done, lingering, ended by the countdown
	ExitStopped Exit = "stopped" // ended from outside
	ExitError   Exit = "error"   // never started, exit code, signal, timeout
)

// Usage counts tokens, as the agent reports them.
type Usage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
}

// Result is what came of one attempt.
type Result struct {
	Status Status

	// Text is the answer, or what there is of it when Status is not success:
	// valid UTF-8, no control characters but newline and tab, trimmed, at most
	// MaxText bytes. If the answer is longer, TextFile names the file in the
	// attempt's folder that has it as it came, up to MaxOutput bytes.
	Text     string
	TextFile string

	// Reason says in a sentence why Status is not success; empty for success.
	// Notes say what else should be known, such as a file of the box that was
	// not taken.
	Reason string
	Notes  []string

	Exit     Exit
	ExitCode int    // -1: ended by a signal, or never started
	Stderr   string // its last lines

	// Session is the agent's session to resume next time. SessionStale: the
	// session asked for is gone; the caller forgets it and tries afresh.
	Session      string
	SessionStale bool

	// Credential is a *state.CredentialError if the agent said that it is not
	// logged in or out of credit: not the message's fault (DESIGN 10).
	Credential error

	// Context is how many tokens the session held at the end, and Window how
	// many its model can hold, as the agent says; 0 if it does not. Calls is how
	// often it asked its model, as its tools tell: what it used in each is, if
	// nothing else is known, what its session holds.
	Context, Window int64
	Calls           int

	// Bill is what it cost, as the agent says.
	Bill

	// Output are the files left in output/, slash-separated and sorted: only
	// regular files with plain names. Read them with OpenOutput.
	Output []string
}
