package turn

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"agentstateloop/internal/osfile"
)

// geminiHomeVariable names the folder that holds gemini's .gemini, instead of the user's home.
const geminiHomeVariable = "GEMINI_CLI_HOME"

const (
	geminiFolder   = ".gemini"
	geminiSettings = "settings.json"
	geminiHomeName = "gemini-home" // in an attempt's folder

	maxGeminiSettings = 4 << 20
)

// geminiFolders hold data that later runs of gemini need. Missing ones are created in the user's
// folder, because folders in the attempt's home are lost.
var geminiFolders = []string{"tmp", "history"}

// geminiFiles are files that gemini may create without a rename.
var geminiFiles = []string{"oauth_creds.json", "gemini-credentials.json", "google_accounts.json", "installation_id", "mcp-oauth-tokens.json", "GEMINI.md"}

// geminiHome makes gemini use the server. gemini has no option for a server, and its system
// settings must belong to root. So the attempt gets a gemini home of its own: a copy of the
// user's settings with our server added, and links to all other files of the user. The user's
// settings are only read.
func (s ToolServer) geminiHome(a *Attempt, env map[string]string) error {
	users := cmp.Or(env[geminiHomeVariable], env["HOME"])
	if users == "" {
		return errors.New("HOME is not set")
	}
	home := filepath.Join(a.Dir, geminiHomeName)
	if err := linkGeminiHome(users, home); err != nil {
		return err
	}
	settings, err := s.geminiSettings(filepath.Join(users, geminiFolder, geminiSettings))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(home, geminiFolder, geminiSettings), settings, 0o600); err != nil {
		return err
	}
	env[geminiHomeVariable] = home
	a.Write = append(a.Write, home, filepath.Join(users, geminiFolder))
	return nil
}

// linkGeminiHome creates home with links to the files in the user's home.
func linkGeminiHome(users, home string) error {
	theirs, ours := filepath.Join(users, geminiFolder), filepath.Join(home, geminiFolder)
	if err := osfile.RemoveAll(home); err != nil {
		return err
	}
	if err := os.MkdirAll(ours, 0o700); err != nil {
		return err
	}
	for _, name := range geminiFolders {
		if err := os.MkdirAll(filepath.Join(theirs, name), 0o700); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(theirs)
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for _, e := range entries {
		names[e.Name()] = true
	}
	for _, name := range geminiFiles {
		names[name] = true
	}
	delete(names, geminiSettings)
	for name := range names {
		if err := os.Symlink(filepath.Join(theirs, name), filepath.Join(ours, name)); err != nil {
			return err
		}
	}
	for _, name := range []string{".env", ".agents"} {
		if _, err := os.Lstat(filepath.Join(users, name)); err == nil {
			if err := os.Symlink(filepath.Join(users, name), filepath.Join(home, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// geminiSettings returns the user's settings with our server added. The server is trusted, so
// gemini calls its tools without a question.
func (s ToolServer) geminiSettings(file string) ([]byte, error) {
	settings := map[string]json.RawMessage{}
	text, err := readSettings(file)
	if err != nil {
		return nil, err
	}
	if text != nil {
		if err := json.Unmarshal(withoutComments(text), &settings); err != nil || settings == nil {
			return nil, fmt.Errorf("%s is not a JSON object", file)
		}
	}
	servers := map[string]json.RawMessage{}
	if len(settings["mcpServers"]) > 0 {
		if err := json.Unmarshal(settings["mcpServers"], &servers); err != nil || servers == nil {
			return nil, fmt.Errorf("mcpServers in %s is not an object", file)
		}
	}
	env := map[string]string{}
	for _, name := range s.variables() {
		env[name] = "${" + name + "}" // in some cases gemini passes on only the listed variables
	}
	servers[s.Name] = json.RawMessage(toJSON(map[string]any{"command": s.Command, "args": s.Args, "env": env, "trust": true}))
	settings["mcpServers"] = json.RawMessage(toJSON(servers))
	return json.Marshal(settings)
}

// readSettings reads a file of settings. It returns nil if the file does not exist.
func readSettings(file string) ([]byte, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxGeminiSettings {
		return nil, fmt.Errorf("%s is not a regular file of at most %d MiB", file, maxGeminiSettings>>20)
	}
	return io.ReadAll(io.LimitReader(f, maxGeminiSettings))
}

// withoutComments replaces the comments in JSON by blanks: gemini allows // and /* */.
func withoutComments(text []byte) []byte {
	out := make([]byte, len(text))
	copy(out, text)
	inText, until := false, ""
	for i := 0; i < len(out); i++ {
		two := ""
		if i+1 < len(text) {
			two = string(text[i : i+2])
		}
		switch {
		case until == "\n" && text[i] == '\n':
			until = ""
		case until == "*/" && two == "*/":
			out[i], out[i+1] = ' ', ' '
			until = ""
			i++
		case until != "":
			if text[i] != '\n' {
				out[i] = ' '
			}
		case inText && text[i] == '\\':
			i++
		case text[i] == '"':
			inText = !inText
		case !inText && two == "//":
			until, out[i] = "\n", ' '
		case !inText && two == "/*":
			until, out[i], out[i+1] = "*/", ' ', ' '
			i++
		}
	}
	return out
}

// removeGeminiHome removes the attempt's home of gemini. Its copy of the user's settings may hold
// keys.
func removeGeminiHome(dir string) { _ = osfile.RemoveAll(filepath.Join(dir, geminiHomeName)) }
