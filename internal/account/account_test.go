package account

import (
	"maps"
	"os"
	"os/user"
	"strconv"
	"testing"
)

// TestPasswdOverridesEnvironment checks that HOME and USER do not count for a user in passwd.
func TestPasswdOverridesEnvironment(t *testing.T) {
	t.Setenv("HOME", "/elsewhere")
	t.Setenv("USER", "somebody")
	want := Account{Name: "somebody", Home: "/elsewhere"}
	if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil {
		want = Account{Name: u.Username, Home: u.HomeDir, Known: true}
	}
	if got, err := Current(); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

func TestEnvironmentWithoutPasswd(t *testing.T) {
	for home, want := range map[string]string{
		"/data/": "", "": "user 7 is not in passwd, and HOME is not set",
		"data": `user 7 is not in passwd, and HOME is "data", not an absolute path`,
	} {
		got, err := fromEnvironment(7, func(key string) string { return map[string]string{"HOME": home, "USER": "u"}[key] })
		if err == nil && (want != "" || got != Account{Name: "u", Home: "/data"}) || err != nil && err.Error() != want {
			t.Errorf("HOME=%q: %+v, %v; want %q", home, got, err, want)
		}
	}
}

// TestEnvironWithoutName checks that a user without a name has no empty USER and LOGNAME.
func TestEnvironWithoutName(t *testing.T) {
	testHome = "ACCOUNT_TEST_HOME"
	defer func() { testHome = "" }()
	t.Setenv(testHome, "/data")
	for user, want := range map[string]map[string]string{
		"":  {"HOME": "/data"},
		"u": {"HOME": "/data", "USER": "u", "LOGNAME": "u"},
	} {
		t.Setenv("USER", user)
		if got := Environ(); !maps.Equal(got, want) {
			t.Errorf("USER=%q: %q, want %q", user, got, want)
		}
	}
}
