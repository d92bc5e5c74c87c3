package fleettest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

const module = "github.com/nats-io/nats-server/v2"

// Program returns the path of a nats-server of the version in go.mod. Without one it skips the
// test, or with AGENTSTATELOOP_REQUIRE_REAL=1 builds the server, once for all tests, which takes a
// minute.
func Program(t testing.TB) string {
	t.Helper()
	path, err := built()
	if err != nil && os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") == "" {
		t.Skip("nats-server is not built yet: AGENTSTATELOOP_REQUIRE_REAL=1 builds it")
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var built = sync.OnceValues(func() (string, error) {
	version, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", module).Output()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "agentstateloop-tests")
	path := filepath.Join(dir, "nats-server-"+strings.TrimSpace(string(version)))
	if _, err := os.Stat(path); err == nil || os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") == "" {
		return path, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	// Packages are tested side by side: the first one builds, the others wait.
	lock := flock.New(path + ".lock")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if _, err := lock.TryLockContext(ctx, 100*time.Millisecond); err != nil {
		return "", err
	}
	defer lock.Unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if out, err := exec.Command("go", "build", "-o", path+".new", module).CombinedOutput(); err != nil {
		return "", errors.New("build nats-server: " + err.Error() + "\n" + string(out))
	}
	return path, os.Rename(path+".new", path)
})
