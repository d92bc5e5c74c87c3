package box_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"agentstateloop/internal/testkit"
)

const nobody = 65534

// TestAsOrdinaryUser runs the other tests as a user without rights, where real programs are required.
func TestAsOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // they ran as one
	}
	if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") == "" {
		t.Skip("AGENTSTATELOOP_REQUIRE_REAL=1 runs the other tests once more as an ordinary user")
	}
	base, err := os.MkdirTemp("", "ordinary")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	program, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	path, tmp := filepath.Join(base, "test"), filepath.Join(base, "tmp")
	for _, err := range []error{
		testkit.WriteProgram(path, string(program)), os.Chmod(path, 0o755), os.Chmod(base, 0o755), os.Mkdir(tmp, 0o700), os.Chown(tmp, nobody, nobody),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), path, "-test.v", "-test.skip=TestLimits/(time|raised)")
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	cmd.Dir, cmd.Stdin = "/", bytes.NewReader(nil)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("PASS: TestEscapes/own")) && !bytes.Contains(out, []byte("SKIP: TestEscapes/own")) {
		t.Errorf("%v\n%s", err, out)
	}
}
