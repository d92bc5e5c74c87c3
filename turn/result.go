package turn

// Status is how a turn ended (docs/design.md, "Turns").
type Status string

// The statuses. Partial means that the agent ended by itself but its answer is not
// whole: the stream broke off, the answer was truncated, or the agent left files
// but no text.
const (
	Success  Status = "success"
	Failed   Status = "failed"
	Canceled Status = "canceled"
	TimedOut Status = "timeout"
	Partial  Status = "partial"
)

// Exit is why the agent's process ended, as events.jsonl names it.
type Exit string

// The exits.
const (
	ExitClean   Exit = "clean"   // by itself, with exit code 0
	ExitIdle    Exit = "idle"    // done and lingering, ended by us
	ExitStopped Exit = "stopped" // ended from outside
	ExitError   Exit = "error"   // never started, or ended by an exit code, a signal or a timeout
)

// Usage counts tokens, as the agent reports them.
type Usage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
}

// Result is the outcome of one attempt.
type Result struct {
	Status Status

	// Text is the answer, or what exists of it when Status is not success. It is
	// trimmed, valid UTF-8 without control characters except newline and tab, of
	// at most MaxText bytes. If the answer is longer, TextFile names the file in
	// the attempt's folder that holds it unchanged, up to MaxOutput bytes.
	Text     string
	TextFile string

	// Reason is one sentence on why Status is not success. It is empty for
	// success. Notes hold further remarks, such as a file that was left out.
	Reason string
	Notes  []string

	Exit     Exit
	ExitCode int    // -1 if ended by a signal or never started
	Stderr   string // its last lines

	// Session is the agent's session to resume next time. SessionFailed means that the
	// attempt resumed one and failed before it called a tool or answered: the caller should
	// try once more without it.
	Session       string
	SessionFailed bool

	Worked bool // it called a tool

	// Refused is what it was not permitted to do, such as "Bash: git push", each once.
	Refused []string

	// Outage is set if the attempt can succeed later, and its message is not at fault.
	Outage *Outage

	// Credential is a *state.CredentialError if the agent reported that it is not
	// logged in or out of credit. Then the message is not at fault
	// (docs/design.md, "Credentials").
	Credential error

	// Context is the number of tokens that the session held at the end, and
	// Window the number that its model can hold; 0 if the agent does not report
	// them. Calls is the number of requests to its model, counted by its tools.
	// The usage per call estimates Context if the agent does not report it.
	Context, Window int64
	Calls           int

	// Bill is its cost, as the agent reports it.
	Bill

	// Rest is set in the result of an agent that has answered and whose process
	// lives. It waits until the process has ended, which Linger limits, and returns
	// the result with the Bill, Exit and ExitCode of the end. It must be called.
	Rest func() Result

	// Output lists the files left in output/, slash-separated and sorted: only
	// regular files with printable names. OpenOutput opens them.
	Output []string
}
