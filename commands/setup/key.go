package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/fleet"
)

// KeyFile returns the default path of an agent's key for a mesh over NATS: next to its
// configuration.
func KeyFile(config, handle string) string {
	return filepath.Join(filepath.Dir(config), handle+".nk")
}

// MakeKey creates a file (0600) with the seed of a new key, durably. It keeps an existing file, and
// then made is false. It returns the public key of the seed in the file.
func MakeKey(ctx context.Context, loader *config.Loader, file string) (public string, made bool, err error) {
	if _, err := os.Lstat(file); err == nil {
		public, err = PublicKey(ctx, loader, file)
		return public, false, err
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", false, err
	}
	seed, public, err := fleet.NewKey()
	if err != nil {
		return "", false, fmt.Errorf("make key: %w", err)
	}
	loader.Secrets.Learn(file, seed)
	if made, err = writeNew(file, seed+"\n"); err != nil {
		return "", false, fmt.Errorf("write key: %w", err)
	}
	if !made { // another process was faster
		public, err = PublicKey(ctx, loader, file)
	}
	return public, made, err
}

// PublicKey returns the public key of the seed in a file.
func PublicKey(ctx context.Context, loader *config.Loader, file string) (string, error) {
	seed, err := loader.SecretFile(file)(ctx)
	if err != nil {
		return "", err
	}
	public, err := fleet.PublicKey(seed)
	if err != nil {
		return "", terminal.WithHint(fmt.Errorf("%s: %w", file, err), "a file that exists is never overwritten: name another one, or move this one away")
	}
	return public, nil
}
