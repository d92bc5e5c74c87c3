package account

import (
	"os"
	"os/user"
	"strconv"
	"testing"
)

// TestPasswdDecides checks that HOME and USER do not count for a user whom passwd lists.
func TestPasswdDecides(t *testing.T) {
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
