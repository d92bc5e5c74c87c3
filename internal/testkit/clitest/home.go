package clitest

import (
	"fmt"
	"os"
	"path/filepath"
)

// Home sets up a home for a real agent: claude, codex or gemini. There the agent knows only the
// service at url. Home returns further arguments and the environment variables that the agent
// needs.
func Home(runner, home, url string) (args []string, env map[string]string, err error) {
	env = map[string]string{"HOME": home, "TMPDIR": home, "PATH": os.Getenv("PATH")}
	switch runner {
	case "claude":
		env["ANTHROPIC_BASE_URL"] = url
		env["ANTHROPIC_API_KEY"] = "sk-test"
		env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
		env["CLAUDE_CODE_MAX_RETRIES"] = "2"
	case "codex":
		env["TEST_KEY"] = "sk-test"
		err = write(filepath.Join(home, ".codex", "config.toml"), fmt.Sprintf(`
model = "gpt-5"
model_provider = "test"
[model_providers.test]
name = "test"
base_url = %q
env_key = "TEST_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
`, url+"/v1"))
	case "gemini":
		args = []string{"--model", "gemini-2.5-pro"} // "auto" asks a model which model to ask
		env["GOOGLE_GEMINI_BASE_URL"] = url
		env["GEMINI_API_KEY"] = "test"
		err = write(filepath.Join(home, ".gemini", "settings.json"), `{"security":{"auth":{"selectedType":"gemini-api-key"}}}`)
	}
	return args, env, err
}

func write(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o600)
}
