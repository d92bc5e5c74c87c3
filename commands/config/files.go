package config

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"agentstateloop/commands/terminal"
)

// StateFolder returns the folder of the default state directories of all the user's agents.
func (l *Loader) StateFolder() (string, error) {
	home, err := l.Home()
	return filepath.Join(home, ".local", "state", terminal.Program), err
}

// StateDir returns the agent's state directory.
func (c *Config) StateDir() string { return c.stateDir() }

// ResolveProgram makes the path of a program absolute. It keeps a name without a slash, for the
// system to look up in PATH.
func (c *Config) ResolveProgram(program string) string { return c.resolveProgram(program) }

// Workdir returns the folder that [turn] workdir names, or "".
func (c *Config) Workdir() string {
	if c.File.Turn.Workdir == "" {
		return ""
	}
	return c.Resolve(c.File.Turn.Workdir)
}

// SecretFiles returns the absolute paths of all files with secrets that the configuration names,
// each once. These are the keys that end in _file, except for certificates, and env_files.
func (c *Config) SecretFiles() []string {
	var all []string
	for _, path := range secretFiles(reflect.ValueOf(c.File), "") {
		if path = c.Resolve(path); !slices.Contains(all, path) {
			all = append(all, path)
		}
	}
	return all
}

// secretFiles returns the values of the keys for secret files in a section. key is the section's
// own key.
func secretFiles(v reflect.Value, key string) (all []string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			key := field.Tag.Get("toml")
			if field.Anonymous || field.IsExported() {
				all = append(all, secretFiles(v.Field(i), key)...)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			all = append(all, secretFiles(v.Index(i), key)...)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			value := v.MapIndex(k)
			if key == "env_files" {
				all = append(all, value.String())
				continue
			}
			all = append(all, secretFiles(value, "")...)
		}
		slices.Sort(all)
	case reflect.String:
		if strings.HasSuffix(key, "_file") && key != "ca_file" && v.String() != "" {
			all = append(all, v.String())
		}
	}
	return all
}

// TokenNames returns the names of the access tokens that the agent keeps in oauth.d, next to the
// state directories of all agents.
func (c *Config) TokenNames() []string {
	var names []string
	for section, s := range map[string]oauthSection{"mail.imap.oauth2": c.File.Mail.IMAP.OAuth2, "mail.smtp.oauth2": c.File.Mail.SMTP.OAuth2} {
		known, err := c.Provider(section, s)
		if err != nil || s.RefreshTokenFile == "" {
			continue
		}
		if name := oauthName(known.Endpoint.TokenURL, s.ClientID, c.Resolve(s.RefreshTokenFile)); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
