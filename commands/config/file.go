package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/fleet/seat"
	"agentstateloop/turn/react"
)

// File holds agent.toml key by key. The code that wires a section, in the file named after it,
// documents the meaning and the limits of its keys.
type File struct {
	Agent    agentSection           `toml:"agent"`
	Timing   timingSection          `toml:"timing"`
	Mail     mailSection            `toml:"mail"`
	Trust    trustSection           `toml:"trust"`
	Mesh     meshSection            `toml:"mesh"`
	Turn     turnSection            `toml:"turn"`
	API      apiSection             `toml:"api"`
	Tools    map[string]toolSection `toml:"tools"`
	Schedule scheduleSection        `toml:"schedule"`
	Listen   listenSection          `toml:"listen"`
	Replies  repliesSection         `toml:"replies"`
	Budget   budgetSection          `toml:"budget"`
	Fleet    fleetSection           `toml:"fleet"`
	Hooks    []hookSection          `toml:"hook"`
	Prompts  []promptSection        `toml:"prompt"`

	Prices map[string]priceSection `toml:"prices"` // by model
}

type agentSection struct {
	Handle   string   `toml:"handle"`
	Operator []string `toml:"operator"`
	StateDir string   `toml:"state_dir"`
	Keep     Duration `toml:"keep"`
}

type timingSection struct {
	IdleInterval    Duration `toml:"idle_interval"`
	EngagedInterval Duration `toml:"engaged_interval"`
	PrepTimeout     Duration `toml:"prep_timeout"`
	ActiveTimeout   Duration `toml:"active_timeout"`
	Cooldown        Duration `toml:"cooldown"`
	NetworkTimeout  Duration `toml:"network_timeout"`
}

type mailSection struct {
	Address string        `toml:"address"`
	Aliases []string      `toml:"aliases"`
	Mailbox string        `toml:"mailbox"`
	IMAP    serverSection `toml:"imap"`
	SMTP    serverSection `toml:"smtp"`
}

type serverSection struct {
	Host            string       `toml:"host"`
	TLS             string       `toml:"tls"`
	Auth            string       `toml:"auth"`
	Username        string       `toml:"username"`
	PasswordFile    string       `toml:"password_file"`
	PasswordEnv     string       `toml:"password_env"`
	PasswordCommand []string     `toml:"password_command"`
	TokenCommand    []string     `toml:"token_command"`
	OAuth2          oauthSection `toml:"oauth2"`
	CAFile          string       `toml:"ca_file"`
}

// oauthSection configures how we obtain access tokens; see mail.OAuth.
type oauthSection struct {
	Provider            string   `toml:"provider"`
	ClientID            string   `toml:"client_id"`
	ClientSecretFile    string   `toml:"client_secret_file"`
	ClientSecretEnv     string   `toml:"client_secret_env"`
	ClientSecretCommand []string `toml:"client_secret_command"`
	RefreshTokenFile    string   `toml:"refresh_token_file"`
	TokenURL            string   `toml:"token_url"`
	AuthURL             string   `toml:"auth_url"`
	Scopes              []string `toml:"scopes"`
	CAFile              string   `toml:"ca_file"`
}

type trustSection struct {
	Require      string `toml:"require"`
	Fallback     string `toml:"fallback"`
	Verify       string `toml:"verify"`
	AuthservID   string `toml:"authserv_id"`
	SameProvider string `toml:"same_provider"`
	AllowSPF     bool   `toml:"allow_spf"`
	Resolver     string `toml:"resolver"`
	Mesh         string `toml:"mesh"`
}

type meshSection struct {
	URL          string       `toml:"url"`
	TokenFile    string       `toml:"token_file"`
	TokenEnv     string       `toml:"token_env"`
	TokenCommand []string     `toml:"token_command"`
	Peers        []string     `toml:"peers"`
	Keymaster    string       `toml:"keymaster"`
	Paths        pathsSection `toml:"paths"`

	// For a mesh over NATS: our own key, the CA of the servers, and the keys of the peers.
	KeyFile    string            `toml:"key_file"`
	KeyEnv     string            `toml:"key_env"`
	KeyCommand []string          `toml:"key_command"`
	CAFile     string            `toml:"ca_file"`
	Keys       map[string]string `toml:"keys"`

	// The proof that another mesh accepted a message: "id" or "status".
	Receipt string `toml:"receipt"`

	// Other names for JSON members, on a mesh that uses them, by our name.
	KeysIn  map[string]string `toml:"keys_in"`
	KeysOut map[string]string `toml:"keys_out"`
}

// pathsSection is for a mesh server that offers its calls under other paths.
type pathsSection struct {
	Message  string `toml:"message"`
	Mailbox  string `toml:"mailbox"`
	Nudge    string `toml:"nudge"`
	Registry string `toml:"registry"`
	Online   string `toml:"online"`
	Status   string `toml:"status"`
	Halt     string `toml:"halt"`
	Go       string `toml:"go"`
	Blob     string `toml:"blob"`
}

type turnSection struct {
	Runner      string           `toml:"runner"`
	Command     []string         `toml:"command"`
	Workdir     string           `toml:"workdir"`
	Timeout     Duration         `toml:"timeout"`
	Silence     OptionalDuration `toml:"silence"`
	Linger      Duration         `toml:"linger"`
	Settle      Duration         `toml:"settle"`
	MaxAttempts int              `toml:"max_attempts"`
	SelfTurns   int              `toml:"self_turns"`
	MCP         bool             `toml:"mcp"`
	Approve     bool             `toml:"approve"`
	Prompts     string           `toml:"prompts"`
	Recall      int              `toml:"recall"`

	Conversation string `toml:"conversation"`

	Collect ZeroDuration `toml:"collect"`

	ContextWindow int               `toml:"context_window"`
	Summary       []string          `toml:"summary"`
	LowCommand    []string          `toml:"low_command"`
	LowArgs       []string          `toml:"low_args"`
	OnLimit       string            `toml:"on_limit"`
	Fallback      []fallbackSection `toml:"fallback"`
	Env           map[string]string `toml:"env"`
	Permissions   rightsSection     `toml:"permissions"`
	ACP           acpSection        `toml:"acp"`
	Sandbox       string            `toml:"sandbox"`
	Box           boxSection        `toml:"box"`
}

// boxSection configures the sandbox of the agent itself.
type boxSection struct {
	Network bool     `toml:"network"`
	Read    []string `toml:"read"`
	Write   []string `toml:"write"`
}

// rightsSection holds additional arguments for the agent's command, by the cause of the turn.
type rightsSection struct {
	Operator []string `toml:"operator"`
	Peer     []string `toml:"peer"`
	Event    []string `toml:"event"`
	Task     []string `toml:"task"`
	Self     []string `toml:"self"`
	Summary  []string `toml:"summary"`
}

// apiSection configures runner = "api".
type apiSection struct {
	modelSection
	LowModel     string           `toml:"low_model"`
	SummaryModel string           `toml:"summary_model"`
	MaxCalls     int              `toml:"max_calls"`
	MaxTools     int              `toml:"max_tools"`
	Rest         OptionalDuration `toml:"rest"`

	Tools toolsSection `toml:"tools"`
	Exec  execSection  `toml:"exec"`
}

// modelSection names a model and configures the requests to it.
type modelSection struct {
	Provider      string   `toml:"provider"`
	BaseURL       string   `toml:"base_url"`
	Model         string   `toml:"model"`
	KeyFile       string   `toml:"key_file"`
	KeyEnv        string   `toml:"key_env"`
	KeyCommand    []string `toml:"key_command"`
	Vision        []string `toml:"vision"`
	ContextWindow int      `toml:"context_window"`
	MaxOutput     int      `toml:"max_output"`

	Omit    []string          `toml:"omit"`
	Extra   map[string]any    `toml:"extra"`
	Headers map[string]string `toml:"headers"`
	Effort  string            `toml:"effort"`
}

// execSection configures the sandbox of the exec tool.
type execSection struct {
	Network   bool     `toml:"network"`
	Read      []string `toml:"read"`
	Processes int      `toml:"processes"`
	Memory    int      `toml:"memory"`    // MiB
	FileSize  int      `toml:"file_size"` // MiB
	CPU       Duration `toml:"cpu"`
}

// toolsSection lists the tools that a turn may call, by the cause of the turn.
type toolsSection struct {
	Operator []string `toml:"operator"`
	Peer     []string `toml:"peer"`
	Event    []string `toml:"event"`
	Task     []string `toml:"task"`
	Self     []string `toml:"self"`
}

// toolSection is one of the user's own tools.
type toolSection struct {
	Command     []string         `toml:"command"`
	Description string           `toml:"description"`
	Schema      string           `toml:"schema"`
	Timeout     OptionalDuration `toml:"timeout"`

	AfterExecution string   `toml:"after_execution"`
	Deadline       Duration `toml:"deadline"`
	ReportFrom     []string `toml:"report_from"`

	MCP mcpSection `toml:"mcp"`
}

// mcpSection makes a tool an MCP server: a program in a sandbox, or an address.
type mcpSection struct {
	Command  []string          `toml:"command"`
	Network  bool              `toml:"network"`
	Read     []string          `toml:"read"`
	Write    []string          `toml:"write"`
	Env      map[string]string `toml:"env"`
	EnvFiles map[string]string `toml:"env_files"`

	URL          string   `toml:"url"`
	TokenFile    string   `toml:"token_file"`
	TokenEnv     string   `toml:"token_env"`
	TokenCommand []string `toml:"token_command"`
	Insecure     bool     `toml:"insecure"`
}

type scheduleSection struct {
	Mode    string           `toml:"mode"`
	Crontab string           `toml:"crontab"`
	Linger  OptionalDuration `toml:"linger"`

	Heartbeat         string   `toml:"heartbeat"`
	HeartbeatFile     string   `toml:"heartbeat_file"`
	HeartbeatEnv      string   `toml:"heartbeat_env"`
	HeartbeatCommand  []string `toml:"heartbeat_command"`
	HeartbeatInsecure bool     `toml:"heartbeat_insecure"`
}

// listenSection configures what `listen` does with the agent.
type listenSection struct {
	Page string `toml:"page"`
}

type repliesSection struct {
	Name        string `toml:"name"`
	Ack         string `toml:"ack"`
	QuietPrep   string `toml:"quiet_prep"`
	QuietActive string `toml:"quiet_active"`
	AckPeers    bool   `toml:"ack_peers"`
	Working     bool   `toml:"working"`
	Notices     bool   `toml:"notices"`
	HTML        bool   `toml:"html"`
	Sent        string `toml:"sent"`

	AckAfter ZeroDuration `toml:"ack_after"`
}

// budgetSection holds amounts in dollars, where an unset amount means no limit, and the numbers of
// the operator's mails and of events that may run within an hour, where 0 means all of them.
type budgetSection struct {
	CreditUSD   float64 `toml:"credit_usd"`
	DayUSD      float64 `toml:"day_usd"`
	TurnUSD     float64 `toml:"turn_usd"`
	LowUSD      float64 `toml:"low_usd"`
	CriticalUSD float64 `toml:"critical_usd"`
	Multiplier  float64 `toml:"multiplier"`
	MailsAnHour int     `toml:"mails_an_hour"`

	EventsAnHour int `toml:"events_an_hour"`
}

// hookSection is one hook: a command or a url.
type hookSection struct {
	Name    string           `toml:"name"`
	On      []string         `toml:"on"`
	Command []string         `toml:"command"`
	URL     string           `toml:"url"`
	Timeout OptionalDuration `toml:"timeout"`
	Body    string           `toml:"body"`

	ContentType   string            `toml:"content_type"`
	Headers       map[string]string `toml:"headers"`
	TokenFile     string            `toml:"token_file"`
	TokenEnv      string            `toml:"token_env"`
	TokenCommand  []string          `toml:"token_command"`
	SecretFile    string            `toml:"secret_file"`
	SecretEnv     string            `toml:"secret_env"`
	SecretCommand []string          `toml:"secret_command"`
	Insecure      bool              `toml:"insecure"`
}

// priceSection holds prices in dollars per million tokens.
type priceSection struct {
	Input      float64 `toml:"input"`
	Output     float64 `toml:"output"`
	CacheRead  float64 `toml:"cache_read"`
	CacheWrite float64 `toml:"cache_write"`
}

// defaults returns the configuration of an empty file.
func defaults() File {
	return File{
		Agent: agentSection{Keep: Duration(90 * 24 * time.Hour)},
		Timing: timingSection{
			IdleInterval:    Duration(30 * time.Minute),
			EngagedInterval: Duration(time.Minute),
			PrepTimeout:     Duration(5 * time.Minute),
			ActiveTimeout:   Duration(10 * time.Minute),
			Cooldown:        Duration(5 * time.Minute),
			NetworkTimeout:  Duration(30 * time.Second),
		},
		Mail: mailSection{
			Mailbox: "INBOX",
			IMAP:    serverSection{TLS: "implicit", Auth: "plain"},
			// Config.SMTP completes [mail.smtp] from [mail.imap].
		},
		Trust: trustSection{Require: "dmarc", Verify: "server", Mesh: "token"},
		Turn:  turnSection{Runner: "exec", Timeout: Duration(10 * time.Minute), Linger: Duration(30 * time.Second), Settle: Duration(500 * time.Millisecond), MaxAttempts: 3, SelfTurns: 10, Recall: 32, Conversation: ConversationOperator, OnLimit: OnLimitWait, Box: boxSection{Network: true}},
		API: apiSection{
			modelSection: modelSection{ContextWindow: react.DefaultWindow, MaxOutput: react.DefaultMaxOutput}, MaxCalls: react.DefaultMaxCalls, MaxTools: react.DefaultMaxTools,
			Exec: execSection{Processes: 512, Memory: 4096, FileSize: 1024, CPU: Duration(5 * time.Minute)},
		},
		Schedule: scheduleSection{
			Mode:    "crontab",
			Crontab: "crontab",
		},
		Listen: listenSection{Page: cycle.PageAct},
		Replies: repliesSection{
			Ack:         "{{.Handle}} standing by. what do you need?",
			QuietPrep:   "going quiet",
			QuietActive: "going quiet -- ping me when you need me",
			AckPeers:    true,
			Working:     true,
			Notices:     true,
			HTML:        true,
		},
		Fleet:  fleetSection{Lease: Duration(seat.DefaultLease), Auto: true},
		Budget: budgetSection{LowUSD: 0.50, CriticalUSD: 0.10, Multiplier: 1, MailsAnHour: 60, EventsAnHour: 60},
	}
}

// fileName is the default name of a configuration.
const fileName = "agent.toml"

// Find returns the absolute path of the configuration: the first of flag, $AGENTSTATELOOP_CONFIG,
// ./agent.toml and the file in the user's configuration folder. It does not check that the first
// two exist. It skips the other two if they are missing.
func (l *Loader) Find(flag string) (string, error) {
	for _, path := range []string{flag, l.Env("AGENTSTATELOOP_CONFIG")} {
		if path != "" {
			return filepath.Abs(path)
		}
	}
	if _, err := os.Stat(fileName); err == nil {
		return filepath.Abs(fileName)
	}
	path, err := l.UserFile()
	if err != nil {
		return "", terminal.Usagef("set HOME to your home directory, or name your configuration with --config FILE",
			"no configuration found: %s does not exist in this folder, and your home directory is unknown: %v", fileName, err)
	}
	if _, err := os.Stat(path); err != nil {
		return "", terminal.Usagef("run `agentstateloop init` to create one, or name yours with --config FILE",
			"no configuration found: neither %s nor %s exists", fileName, path)
	}
	return filepath.Abs(path)
}

// UserFile returns the path of agent.toml in the user's configuration folder. That folder is
// $XDG_CONFIG_HOME, or ~/.config if the variable is not an absolute path.
func (l *Loader) UserFile() (string, error) {
	dir := l.Env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		home, err := l.Home()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, terminal.Program, fileName), nil
}

// InPath returns the path of a program found in a PATH such as "/usr/bin:/bin", or "".
func InPath(program, path string) string {
	for dir := range strings.SplitSeq(path, ":") {
		if file := filepath.Join(dir, program); CanRun(file) {
			return file
		}
	}
	return ""
}

// CanRun reports whether file is the absolute path of an executable file.
func CanRun(file string) bool {
	info, err := os.Stat(file)
	return filepath.IsAbs(file) && err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}

// QuoteGlob returns a filepath.Glob pattern that matches only path.
func QuoteGlob(path string) string {
	var quoted []byte
	for i := range len(path) {
		if slices.Contains([]byte(`*?[\`), path[i]) {
			quoted = append(quoted, '\\')
		}
		quoted = append(quoted, path[i])
	}
	return string(quoted)
}

// Resolve makes a path absolute. "~" is the user's home directory in passwd. A relative path starts
// at the folder of the configuration.
func (c *Config) Resolve(path string) string {
	if path == "~" || strings.HasPrefix(path, "~/") {
		return filepath.Join(c.home, path[1:])
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(filepath.Dir(c.Path), path)
}

// ResolveProgram makes the path of a program absolute. It returns a name without a slash unchanged,
// for the system to look up in PATH.
func (c *Config) ResolveProgram(program string) string {
	if strings.Contains(program, "/") {
		return c.Resolve(program)
	}
	return program
}
