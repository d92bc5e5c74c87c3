package turn

// Status is how a turn ended (docs/design.md, "Turns").
type Status string

// The statuses. Partial means that the agent ended by itself with an incomplete answer: the
// stream broke off, the answer was truncated, or the agent left files but no text.
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

	// Text is the answer, or the available part of it if Status is not success. It is trimmed,
	// valid UTF-8 without control characters except newline and tab, of at most MaxText bytes. If
	// the answer is longer, TextFile names the file in the attempt's folder that holds it
	// unchanged, up to MaxOutput bytes.
	Text     string
	TextFile string

	// Reason explains in one sentence why Status is not success. It is empty for success. Notes
	// hold further remarks, such as a skipped file.
	Reason string
	Notes  []string

	Exit     Exit
	ExitCode int    // -1 if ended by a signal or never started
	Stderr   string // its last lines

	// Session is the agent's session to resume next time. SessionFailed means that the attempt
	// resumed a session and failed before it called a tool or answered. The caller should try
	// once more without the session.
	Session       string
	SessionFailed bool

	Worked bool // the agent called a tool

	// Refused lists the actions that the agent was denied, such as "Bash: git push", each once.
	Refused []string

	// Outage is set if the attempt can succeed later. Then the message is not at fault.
	Outage *Outage

	// Credential is a *state.CredentialError if the agent reported that it is not logged in or
	// has no credit left. Then the message is not at fault (docs/design.md, "Credentials").
	Credential error

	// Context is the number of tokens in the session at the end, and Window is the context window
	// of the model in tokens. Each is 0 if the agent does not report it. Calls is the number of
	// requests to the model, inferred from the agent's tool calls. If the agent does not report
	// Context, the usage per call gives an estimate.
	Context, Window int64
	Calls           int

	// Bill is the cost, as the agent reports it.
	Bill

	// Rest is set if the agent has answered and its process still lives. It waits for the end of
	// the process, at most Linger, and returns the Result with the final Bill, Exit and ExitCode.
	// The caller must call it.
	Rest func() Result

	// Output lists the files left in output/, slash-separated and sorted: only
	// regular files with printable names. OpenOutput opens them.
	Output []string
}
