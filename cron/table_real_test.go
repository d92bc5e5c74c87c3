package cron

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// spool is Debian's folder of the tables of users.
const spool = "/var/spool/cron/crontabs"

// privateSpool is the environment variable that marks the inner run of
// TestRealCrontab. Its value is the name of a file in the private spool.
const privateSpool = "AGENTSTATELOOP_PRIVATE_SPOOL"

// TestRealCrontab runs the real crontab(1) of Debian on a private table. The test starts itself again in
// a mount namespace with an empty spool, so the user's crontab stays as it is. It needs root and
// unshare(1). Without them it is skipped, or fails if AGENTSTATELOOP_REQUIRE_REAL is 1.
func TestRealCrontab(t *testing.T) {
	if marker := os.Getenv(privateSpool); marker != "" {
		if _, err := os.Stat(filepath.Join(spool, marker)); err != nil {
			t.Fatalf("this is not the private spool: %v", err)
		}
		testRealCrontab(t)
		return
	}

	if why := cannotUnshare(); why != "" {
		if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") == "1" {
			t.Fatalf("no private spool for the real crontab: %s", why)
		}
		t.Skipf("no private spool for the real crontab: %s", why)
	}
	own := filepath.Join(t.TempDir(), "crontabs")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	marker := fmt.Sprintf("private-%d", os.Getpid())
	if err := os.WriteFile(filepath.Join(own, marker), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := likeSpool(own); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "-m", "sh", "-c",
		`mount --make-rprivate / && mount --bind "$1" "$2" && exec "$3" -test.run='^TestRealCrontab$' -test.v`,
		"sh", own, spool, self)
	cmd.Env = append(os.Environ(), privateSpool+"="+marker)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestRealCrontab/") {
		t.Errorf("in the private spool: %v\n%s", err, out)
	}
}

func cannotUnshare() string {
	if os.Geteuid() != 0 {
		return "not root"
	}
	for _, program := range []string{"crontab", "unshare", "mount"} {
		if _, err := exec.LookPath(program); err != nil {
			return err.Error()
		}
	}
	if _, err := os.Stat(spool); err != nil {
		return err.Error()
	}
	if out, err := exec.Command("unshare", "-m", "mount", "--make-rprivate", "/").CombinedOutput(); err != nil {
		return fmt.Sprintf("unshare: %v: %s", err, out)
	}
	return ""
}

// likeSpool gives dir the owner, group and mode of the real spool: crontab is
// setgid and needs the group to write.
func likeSpool(dir string) error {
	info, err := os.Stat(spool)
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	if err := os.Chown(dir, int(owner.Uid), int(owner.Gid)); err != nil {
		return err
	}
	return os.Chmod(dir, info.Mode())
}

func testRealCrontab(t *testing.T) {
	dir := t.TempDir()
	table := Table{Lock: filepath.Join(dir, "lock"), Backup: filepath.Join(dir, "backups"), Timeout: 20 * time.Second}
	raw := filepath.Join(spool, "root") // the file of the table, readable by root
	wantSpool := func(t *testing.T, want string) {
		t.Helper()
		got, err := os.ReadFile(raw)
		if err != nil {
			t.Fatal(err)
		}
		got, _ = cutHeader(got)
		if string(got) != want {
			t.Errorf("%s:\ngot  %.300q\nwant %.300q", raw, got, want)
		}
	}
	j := job("goulard3120")

	t.Run("the first install and the last removal", func(t *testing.T) {
		wantTable(t, table, "")
		change, err := table.Install(t.Context(), j)
		if err != nil || !change.Wrote {
			t.Fatalf("Install: %+v, %v", change, err)
		}
		wantTable(t, table, ours+"\n")
		remove(t, table, j.Agent)
		wantTable(t, table, "")
		if _, err := os.Stat(raw); err == nil {
			t.Error("an empty table was left")
		}
	})

	t.Run("foreign bytes", func(t *testing.T) {
		for _, foreign := range []string{
			"A=b\n*/5 * * * * true\n",
			"# caf\xe9 \x00 nul\n*/5 * * * * tr\xe9ue\n",
			header + "A=b\n",
			strings.Repeat("# a line of somebody else, "+strings.Repeat("x", 73)+"\n", 9900),
			"# one\n# two\n# three\n# four\n",
		} {
			if err := table.write(t.Context(), []byte(foreign)); err != nil {
				t.Fatal(err)
			}
			for _, interval := range []time.Duration{time.Minute, 30 * time.Minute, time.Minute, 24 * time.Hour} {
				j := j
				j.Interval = interval
				install(t, table, j)
				wantSpool(t, foreign+mustLine(t, j)+"\n")
			}
			remove(t, table, j.Agent)
			wantSpool(t, foreign)
		}
	})

	t.Run("comments that crontab -l hides", func(t *testing.T) {
		// A table written without crontab, without a newline at its end.
		put(t, raw, "# mine\n# too\nA=b")
		install(t, table, j)
		wantSpool(t, "# mine\n# too\nA=b\n"+ours+"\n")

		put(t, raw, "# mine\r\nA=b\n")
		_, err := table.Install(t.Context(), j)
		wantError(t, err, "hides comments", "nothing was written")
		wantSpool(t, "# mine\r\nA=b\n")
	})

	t.Run("control characters that crontab -l prints as escapes", func(t *testing.T) {
		for _, text := range []string{"A=b\r\n", "A=b\n" + ours + "\r\n", "# \b\nA=b\n# \b\n", "*/5 * * * * printf 'a\\r'\n"} {
			if err := table.write(t.Context(), []byte(text)); err != nil {
				t.Fatal(err)
			}
			j := j
			j.Interval = time.Minute
			_, err := table.Install(t.Context(), j)
			wantError(t, err, "nothing was written")
			wantSpool(t, text)
		}
		if err := table.write(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("the longest line", func(t *testing.T) {
		install(t, table, longJob(t, maxLine))
	})

	t.Run("refused", func(t *testing.T) {
		put(t, raw, "A=b\nnot a crontab line\n")
		_, err := table.Install(t.Context(), j)
		wantError(t, err, "errors in crontab file", "the table is unchanged")
		wantTable(t, table, "A=b\nnot a crontab line\n")
	})
}

func wantTable(t *testing.T, table Table, want string) {
	t.Helper()
	got, err := table.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("crontab -l:\ngot  %.200q\nwant %.200q", got, want)
	}
}
