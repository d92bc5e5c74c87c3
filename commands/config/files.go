package config

import (
	"cmp"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/order"
)

// DraftPattern matches the names of configurations and secrets that init or restore is writing.
const DraftPattern = ".init-*"

// StateFolder returns the folder of the default state directories of all the user's agents.
func (l *Loader) StateFolder() (string, error) {
	home, err := l.Home()
	return filepath.Join(home, ".local", "state", terminal.Program), err
}

// Workdir returns the folder that [turn] workdir names, or "".
func (c *Config) Workdir() string {
	if c.File.Turn.Workdir == "" {
		return ""
	}
	return c.Resolve(c.File.Turn.Workdir)
}

// SecretFiles returns the files with secrets that the configuration names, each once, by key. These
// are the keys that end in _file, except for certificates, and env_files.
func (c *Config) SecretFiles() []Named {
	var all []Named
	for _, n := range c.secretFiles(reflect.ValueOf(c.File), "") {
		if !slices.ContainsFunc(all, func(o Named) bool { return o.Path == n.Path }) {
			all = append(all, n)
		}
	}
	order.Sort(all, func(a, b Named) int { return cmp.Compare(a.Key, b.Key) })
	return all
}

// secretFiles returns the secret files of a section, or the one of a key.
func (c *Config) secretFiles(v reflect.Value, key string) (all []Named) {
	below := func(name string) string { return strings.TrimPrefix(key+"."+name, ".") }
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			switch name := field.Tag.Get("toml"); {
			case field.Anonymous:
				all = append(all, c.secretFiles(v.Field(i), key)...)
			case field.IsExported():
				all = append(all, c.secretFiles(v.Field(i), below(name))...)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			all = append(all, c.secretFiles(v.Index(i), key)...)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			all = append(all, c.secretFiles(v.MapIndex(k), below(k.String()))...)
		}
	case reflect.String:
		names := strings.Split(key, ".")
		last := names[len(names)-1]
		secret := strings.HasSuffix(last, "_file") && last != "ca_file" || slices.Contains(names, "env_files")
		if secret && v.String() != "" {
			all = append(all, c.named(key, v.String()))
		}
	}
	return all
}

// Tokens returns the file with the access token of each OAuth2 login, in oauth.d next to the state
// directories of all agents, by its section. A section that is not valid is left out.
func (c *Config) Tokens() map[string]string {
	files := map[string]string{}
	for section, s := range map[string]oauthSection{"mail.imap": c.File.Mail.IMAP.OAuth2, "mail.smtp": c.File.Mail.SMTP.OAuth2} {
		known, err := c.Provider(section+".oauth2", s)
		if err != nil || s.RefreshTokenFile == "" {
			continue
		}
		name := oauthName(known.Endpoint.TokenURL, s.ClientID, c.Resolve(s.RefreshTokenFile))
		files[section] = filepath.Join(c.stateFolder(), "oauth.d", name+".json")
	}
	return files
}
