package commands

// configFile is agent.toml (DESIGN 12), key by key. What a key means, its
// default and its limits stand where it is wired, in wire.go and its like.
type configFile struct {
	Agent    agentSection    `toml:"agent"`
	Timing   timingSection   `toml:"timing"`
	Mail     mailSection     `toml:"mail"`
	Trust    trustSection    `toml:"trust"`
	Mesh     meshSection     `toml:"mesh"`
	Turn     turnSection     `toml:"turn"`
	Schedule scheduleSection `toml:"schedule"`
	Replies  repliesSection  `toml:"replies"`
}

// span is a length of time in the words of parseSpan: "90s", "30m", "90d".
type span string

type agentSection struct {
	Handle   string   `toml:"handle"`
	Operator []string `toml:"operator"`
	StateDir string   `toml:"state_dir"`
	Keep     span     `toml:"keep"`
}

type timingSection struct {
	IdleInterval    span `toml:"idle_interval"`
	EngagedInterval span `toml:"engaged_interval"`
	PrepTimeout     span `toml:"prep_timeout"`
	ActiveTimeout   span `toml:"active_timeout"`
	Cooldown        span `toml:"cooldown"`
	NetworkTimeout  span `toml:"network_timeout"`
}

type mailSection struct {
	Address string        `toml:"address"`
	Mailbox string        `toml:"mailbox"`
	IMAP    serverSection `toml:"imap"`
	SMTP    serverSection `toml:"smtp"`
}

type serverSection struct {
	Host            string   `toml:"host"`
	TLS             string   `toml:"tls"`
	Auth            string   `toml:"auth"`
	Username        string   `toml:"username"`
	PasswordFile    string   `toml:"password_file"`
	PasswordEnv     string   `toml:"password_env"`
	PasswordCommand []string `toml:"password_command"`
	CAFile          string   `toml:"ca_file"`
}

type trustSection struct {
	Require      string `toml:"require"`
	Verify       string `toml:"verify"`
	AuthservID   string `toml:"authserv_id"`
	SameProvider string `toml:"same_provider"`
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
}

// pathsSection is for a mesh that has its calls elsewhere (DESIGN 8).
type pathsSection struct {
	Message  string `toml:"message"`
	Mailbox  string `toml:"mailbox"`
	Nudge    string `toml:"nudge"`
	Registry string `toml:"registry"`
	Online   string `toml:"online"`
	Status   string `toml:"status"`
	Halt     string `toml:"halt"`
	Go       string `toml:"go"`
}

type turnSection struct {
	Runner      string            `toml:"runner"`
	Command     []string          `toml:"command"`
	Workdir     string            `toml:"workdir"`
	Timeout     span              `toml:"timeout"`
	Silence     span              `toml:"silence"`
	Linger      span              `toml:"linger"`
	MaxAttempts int               `toml:"max_attempts"`
	Env         map[string]string `toml:"env"`
	Permissions rightsSection     `toml:"permissions"`
}

// rightsSection holds arguments added to the agent's command, by what caused
// the turn.
type rightsSection struct {
	Operator []string `toml:"operator"`
	Peer     []string `toml:"peer"`
	Task     []string `toml:"task"`
}

type scheduleSection struct {
	Mode    string `toml:"mode"`
	Crontab string `toml:"crontab"`
	Linger  span   `toml:"linger"`
}

type repliesSection struct {
	Ack         string `toml:"ack"`
	QuietPrep   string `toml:"quiet_prep"`
	QuietActive string `toml:"quiet_active"`
	Working     bool   `toml:"working"`
	Notices     bool   `toml:"notices"`
}

// defaults is the configuration of an empty file.
func defaults() configFile {
	return configFile{
		Agent: agentSection{Keep: "90d"},
		Timing: timingSection{
			IdleInterval:    "30m",
			EngagedInterval: "1m",
			PrepTimeout:     "5m",
			ActiveTimeout:   "10m",
			Cooldown:        "5m",
			NetworkTimeout:  "30s",
		},
		Mail: mailSection{
			Mailbox: "INBOX",
			IMAP:    serverSection{TLS: "implicit", Auth: "plain"},
			// Those of [mail.smtp] that are missing are taken from [mail.imap].
		},
		Trust: trustSection{Require: "dmarc", Verify: "server", Mesh: "token"},
		Turn:  turnSection{Runner: "exec", Timeout: "10m", Linger: "30s", MaxAttempts: 3},
		Schedule: scheduleSection{
			Mode:    "crontab",
			Crontab: "crontab",
		},
		Replies: repliesSection{
			Ack:         "{{.Handle}} standing by. what do you need?",
			QuietPrep:   "going quiet",
			QuietActive: "going quiet -- ping me when you need me",
			Working:     true,
			Notices:     true,
		},
	}
}
