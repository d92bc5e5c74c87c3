package box

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentstateloop/internal/order"
)

// The sizes of the file systems in memory, in bytes.
const (
	maxScratch = 1 << 30   // /tmp
	maxShared  = 256 << 20 // /dev/shm
	maxEtc     = 1 << 20
)

// selfInside is the folder in the sandbox that contains our own binary, under its own name.
// Landlock forbids the program to read it.
const selfInside = "/.self"

// selfPath returns the path of our own binary in the sandbox.
func (b Box) selfPath() string { return filepath.Join(selfInside, filepath.Base(b.Self)) }

// mount is one step in building the file system of a sandbox. The steps run in order. From is a
// path outside, without symbolic links; To is a path in the sandbox.
type mount struct {
	Kind     mountKind
	From, To string `json:",omitempty"`
	Size     int64  `json:",omitempty"` // bytes, of a tmpfs
}

type mountKind string

const (
	readOnly  mountKind = "ro"
	readWrite mountKind = "rw"
	tmpfs     mountKind = "tmpfs"
	symlink   mountKind = "symlink" // From is the link's target
	proc      mountKind = "proc"
	dev       mountKind = "dev"    // the few devices that every program expects
	sealed    mountKind = "sealed" // makes a finished tmpfs read-only
)

// etcFiles are the files of /etc that programs need. Every user of the machine can read them,
// and they contain no secrets. init writes the files that name users.
var etcFiles = []string{
	"alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types", "protocols", "services", "ssl/openssl.cnf",
}

// etcNetwork are the additional files of /etc that network programs need.
var etcNetwork = []string{"ca-certificates", "crypto-policies", "hosts", "pki/ca-trust/extracted", "pki/tls/certs", "resolv.conf", "ssl/cert.pem", "ssl/certs"}

// procCovers are the parts of /proc through which root could change the machine; we may be root
// outside the sandbox. The sandbox has the machine's versions of them, read-only.
var procCovers = []string{"/proc/acpi", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}

// procMasks are files of /proc about the machine or about our own keys. The program cannot open
// them.
var procMasks = []string{"/proc/kallsyms", "/proc/kcore", "/proc/key-users", "/proc/keys", "/proc/sched_debug", "/proc/timer_list"}

// layout returns the steps that build the whole file system of the sandbox.
func (b Box) layout() ([]mount, error) {
	folders, err := b.grantMounts()
	if err != nil {
		return nil, err
	}
	self, err := filepath.EvalSymlinks(b.Self)
	if err != nil {
		return nil, fmt.Errorf("sandbox: path of this program: %w", err)
	}
	all := []mount{{Kind: readOnly, From: "/usr", To: "/usr"}}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		if target, err := os.Readlink(dir); err == nil {
			all = append(all, mount{Kind: symlink, From: target, To: dir})
		} else if _, err := os.Stat(dir); err == nil {
			all = append(all, mount{Kind: readOnly, From: dir, To: dir})
		}
	}
	all = append(all, mount{Kind: proc, To: "/proc"}, mount{Kind: dev, To: "/dev"}, mount{Kind: tmpfs, To: "/dev/shm", Size: maxShared})
	all = append(all, mount{Kind: sealed, To: "/dev"}, mount{Kind: tmpfs, To: "/tmp", Size: maxScratch}, mount{Kind: tmpfs, To: "/etc", Size: maxEtc})
	for _, name := range procCovers {
		if _, err := os.Lstat(name); err == nil {
			all = append(all, mount{Kind: readOnly, From: name, To: name})
		}
	}
	for _, name := range procMasks {
		if _, err := os.Lstat(name); err == nil {
			all = append(all, mount{Kind: readOnly, From: "/dev/null", To: name})
		}
	}
	all = append(all, etcMounts(etcFiles)...)
	if b.Network {
		all = append(all, etcMounts(etcNetwork)...)
	}
	all = append(all, mount{Kind: readOnly, From: self, To: b.selfPath()})
	if b.hasOwnHome() {
		all = append(all, mount{Kind: tmpfs, To: filepath.Clean(b.Home), Size: maxScratch})
	}
	return append(append(all, folders...), mount{Kind: sealed, To: "/"}), nil
}

// hasOwnHome reports whether no other folder of the sandbox contains Home. Home is then empty
// except for the granted paths below it.
func (b Box) hasOwnHome() bool {
	if Grantable(b.Home) != nil {
		return false
	}
	for _, dir := range append([]string{"/tmp", "/usr"}, append(b.Write[:len(b.Write):len(b.Write)], b.Read...)...) {
		if within(filepath.Clean(dir), filepath.Clean(b.Home)) {
			return false
		}
	}
	return true
}

// etcMounts returns mounts for the names in /etc that exist on this machine.
func etcMounts(names []string) []mount {
	var all []mount
	for _, name := range names {
		name = filepath.Join("/etc", name)
		if real, err := filepath.EvalSymlinks(name); err == nil {
			all = append(all, mount{Kind: readOnly, From: real, To: name})
		}
	}
	return all
}

// grantMounts returns the mounts of the granted paths, each folder before the paths below it.
//
// It leaves out paths below a folder of Write. That folder's mount contains them already, and a
// program in an earlier sandbox may have replaced such a path by a link to anywhere.
func (b Box) grantMounts() ([]mount, error) {
	var all []mount
	var errs []error
	add := func(kind mountKind, paths []string) {
		for _, p := range paths {
			m, err := grantMount(kind, p)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			all = append(all, m)
		}
	}
	add(readWrite, b.Write)
	add(readOnly, b.Read)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	order.Stable(all, func(a, b mount) int { return strings.Compare(a.To, b.To) })
	return slices.DeleteFunc(slices.Clone(all), func(m mount) bool {
		return slices.ContainsFunc(all, func(w mount) bool { return w.Kind == readWrite && w.covers(m) })
	}), nil
}

// grantMount returns the mount of a granted path.
func grantMount(kind mountKind, path string) (mount, error) {
	if err := Grantable(path); err != nil {
		return mount{}, err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return mount{}, fmt.Errorf("sandbox: %w", err)
	}
	if err := Grantable(real); err != nil {
		return mount{}, err
	}
	return mount{Kind: kind, From: real, To: filepath.Clean(path)}, nil
}

// covers reports whether m, a writable mount, makes the mount of other redundant.
func (m mount) covers(other mount) bool {
	if m.From == other.From && m.To == other.To {
		return other.Kind == readOnly
	}
	return m.From != other.From && within(m.From, other.From) || m.To != other.To && within(m.To, other.To)
}

// within reports whether path is dir or below it. Both are clean.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
