package box

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// probeTimeout bounds a trial of a way.
const probeTimeout = 10 * time.Second

// Find returns how boxes can be made on this machine: by bubblewrap where it is
// installed and works, else our own way. It makes a box to find out, because user
// namespaces may be forbidden. self is the absolute path of our own binary. The error
// says why no way works, and what the operator can do.
func Find(ctx context.Context, self string) (Way, error) {
	w, noBwrap := Bubblewrap(ctx, self)
	if noBwrap == nil {
		return w, nil
	}
	w, err := Own(ctx, self)
	if err != nil {
		return Way{}, fmt.Errorf("programs cannot be confined on this machine: %w; our own way: %w; %s", noBwrap, err, advice())
	}
	return w, nil
}

// Bubblewrap returns the way through bubblewrap if that is installed and works.
func Bubblewrap(ctx context.Context, self string) (Way, error) {
	path, err := findBwrap()
	if err != nil {
		return Way{}, err
	}
	w := Way{name: "bubblewrap", bwrap: path}
	if err := w.probe(ctx, self); err != nil {
		return Way{}, fmt.Errorf("%s: %w", path, err)
	}
	return w, nil
}

// Own returns our own way, if the kernel lets us make namespaces and has Landlock.
func Own(ctx context.Context, self string) (Way, error) {
	w := Way{name: "own"}
	if err := w.probe(ctx, self); err != nil {
		return Way{}, err
	}
	return w, nil
}

// forProbe returns the context of a trial.
func forProbe(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, probeTimeout)
}

// probe makes a box and puts up all its walls.
func (w Way) probe(ctx context.Context, self string) error {
	ctx, cancel := forProbe(ctx)
	defer cancel()
	var said bytes.Buffer
	err := Box{Self: self}.Run(ctx, w, Program{Env: os.Environ(), Stdout: &said, Stderr: &said})
	if line, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n"); err != nil && line != "" {
		return errors.New(line)
	}
	return err
}

// advice returns what the operator can do where no way works.
func advice() string {
	const more = "; or install bubblewrap, if it is missing"
	switch {
	case setting("/proc/sys/kernel/unprivileged_userns_clone") == "0":
		return "allow user namespaces: sysctl -w kernel.unprivileged_userns_clone=1" + more
	case setting("/proc/sys/user/max_user_namespaces") == "0":
		return "allow user namespaces: sysctl -w user.max_user_namespaces=10000" + more
	case setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		return "give bwrap or agentstateloop an AppArmor profile with \"userns,\", or run sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
	}
	return "install bubblewrap, and allow user namespaces if this is a container"
}

func setting(path string) string {
	b, _ := os.ReadFile(path)
	return strings.TrimSpace(string(b))
}
