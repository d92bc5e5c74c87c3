package powerloss

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// traced are the system calls that change a file system, or make a change durable.
const traced = "open,openat,creat,write,writev,pwrite64,pwritev,truncate,ftruncate,fallocate,fsync,fdatasync,sync_file_range," +
	"rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir,chmod,fchmod,fchmodat"

// copying are the system calls whose bytes a trace does not show. They fail here as
// on a kernel without them, and the program reads and writes instead.
const copying = "copy_file_range,sendfile,splice,io_uring_setup"

// needTools skips a test where strace or bubblewrap is missing.
func needTools(t *testing.T) {
	t.Helper()
	out, err := exec.Command("bwrap", "--dev-bind", "/", "/", "--", "strace", "-f", "-o", os.DevNull, "true").CombinedOutput()
	if err == nil {
		return
	}
	if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" {
		t.Fatalf("strace does not work in bubblewrap: %v: %s", err, out)
	}
	t.Skipf("strace does not work in bubblewrap here: %v: %s", err, out)
}

// straced returns the command line that runs args and writes their trace to file.
func straced(file string, args ...string) []string {
	return append([]string{"strace", "-f", "--seccomp-bpf", "-qq", "-y", "-ttt", "-T", "-xx", "-s", "100000000", "-e", "signal=none",
		"-e", "trace=" + traced + "," + copying, "-e", "inject=" + copying + ":error=ENOSYS", "-o", file, "--"}, args...)
}

// call is one system call of a trace. Times are microseconds since 1970.
type call struct {
	pid, name  string
	start, end int64
	args       []string
	ret        int64
	opened     string // the path of the descriptor that the call returned
}

var (
	callLine = regexp.MustCompile(`^(\d+) +(\d+\.\d{6}) (?:(<\.\.\. \w+ resumed>)|(\w+)\()(.*)$`)
	callEnd  = regexp.MustCompile(`^(.*)\) += (-?\d+)(?:<([^>]*)>(?:\(deleted\))?)?(?: [^<]*)? <(\d+\.\d{6})>$`)
)

// readTrace returns the calls of a trace that succeeded, in the order in which they ended.
func readTrace(file string) ([]call, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var calls []call
	unfinished := map[string]call{}
	began := map[string]string{}
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadString('\n')
		if line == "" && err != nil {
			break
		}
		m := callLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			continue // of a signal, or the end of a process
		}
		c := call{pid: m[1], name: m[4], start: microseconds(m[2])}
		rest := m[5]
		if m[3] != "" {
			c, rest = unfinished[m[1]], began[m[1]]+rest
		}
		if head, ok := strings.CutSuffix(rest, " <unfinished ...>"); ok {
			unfinished[m[1]], began[m[1]] = c, head
			continue
		}
		end := callEnd.FindStringSubmatch(rest)
		if end == nil {
			continue // the process was killed in it
		}
		if c.ret, _ = strconv.ParseInt(end[2], 10, 64); c.ret < 0 {
			continue
		}
		c.end = c.start + microseconds(end[4])
		c.opened = unhex(end[3])
		c.args = splitArgs(end[1])
		calls = append(calls, c)
	}
	slices.SortStableFunc(calls, func(a, b call) int { return int(a.end - b.end) })
	return calls, nil
}

// microseconds converts seconds with six digits of a fraction.
func microseconds(seconds string) int64 {
	n, _ := strconv.ParseInt(strings.Replace(seconds, ".", "", 1), 10, 64)
	return n
}

// splitArgs splits the arguments of a call at the commas between them. Strings and
// paths are in hexadecimal, so that they hold none.
func splitArgs(text string) []string {
	var args []string
	depth, start := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case ',':
			if depth == 0 {
				args = append(args, strings.TrimSpace(text[start:i]))
				start = i + 1
			}
		}
	}
	return append(args, strings.TrimSpace(text[start:]))
}

// unhex decodes \x2f\x74.
func unhex(text string) string {
	b, err := hex.DecodeString(strings.ReplaceAll(text, `\x`, ""))
	if err != nil {
		return text
	}
	return string(b)
}

var quoted = regexp.MustCompile(`"([^"]*)"`)

// text returns the bytes of the strings in an argument.
func text(arg string) []byte {
	var all bytes.Buffer
	for _, m := range quoted.FindAllStringSubmatch(arg, -1) {
		all.WriteString(unhex(m[1]))
	}
	return all.Bytes()
}

// described returns the path of the descriptor in an argument such as 5<path>. It is
// "" if that has no name any more.
func described(arg string) string {
	_, path, ok := strings.Cut(arg, "<")
	path, after, _ := strings.Cut(path, ">")
	if path = unhex(path); !ok || after == "(deleted)" || strings.HasSuffix(path, " (deleted)") {
		return ""
	}
	return path
}

// number returns an argument that is a number, in C's notation.
func number(arg string) int64 {
	n, _ := strconv.ParseInt(arg, 0, 64)
	return n
}

// paths returns the paths in the arguments of a call, in order. One that follows the descriptor of a
// folder may be relative to it.
func (c call) paths() (all []string, err error) {
	for i, arg := range c.args {
		if !strings.HasPrefix(arg, `"`) {
			continue
		}
		path := string(text(arg))
		if !filepath.IsAbs(path) {
			if i == 0 || !strings.Contains(c.args[i-1], "<") {
				return nil, fmt.Errorf("%s of %s: a trace does not show the folder that it is relative to", c.name, path)
			}
			path = filepath.Join(described(c.args[i-1]), path)
		}
		all = append(all, filepath.Clean(path))
	}
	return all, nil
}

// play applies a call to the disk.
func (d *disk) play(c call) error {
	d.began, d.ended = c.start, c.end
	last := c.args[len(c.args)-1]
	switch c.name {
	case "open", "openat", "creat":
		flags, mode := last, int64(0o600)
		if c.name == "creat" {
			flags = "O_CREAT|O_TRUNC"
		} else if !strings.Contains(flags, "O_") {
			flags, mode = c.args[len(c.args)-2], number(flags)
		}
		return d.open(c.opened, strings.Contains(flags, "O_CREAT"), strings.Contains(flags, "O_TRUNC"), mode&^umask)
	case "write", "writev":
		return d.write(described(c.args[0]), -1, text(c.args[1])[:c.ret])
	case "pwrite64", "pwritev":
		return d.write(described(c.args[0]), number(last), text(c.args[1])[:c.ret])
	case "ftruncate":
		return d.truncate(described(c.args[0]), number(last))
	case "fsync", "fdatasync":
		return d.sync(described(c.args[0]))
	case "fchmod":
		return d.chmod(described(c.args[0]), number(last))
	case "fchmodat2", "syscall_0x1c4":
		return nil // an older strace shows its number alone; we call it only for folders, after the agent has ended
	}
	target := ""
	if strings.HasPrefix(c.name, "symlink") {
		target, c.args = string(text(c.args[0])), c.args[1:]
	}
	paths, err := c.paths()
	if err != nil {
		return err
	}
	switch c.name {
	case "truncate":
		return d.truncate(paths[0], number(last))
	case "rename", "renameat", "renameat2":
		return d.rename(paths[0], paths[1])
	case "link", "linkat":
		return d.link(paths[0], paths[1])
	case "symlink", "symlinkat":
		return d.symlink(target, paths[0])
	case "unlink", "unlinkat", "rmdir":
		return d.unlink(paths[0])
	case "mkdir", "mkdirat":
		return d.mkdir(paths[0], number(last)&^umask)
	case "chmod", "fchmodat":
		return d.chmod(paths[0], number(last))
	}
	return fmt.Errorf("%s is not modelled", c.name)
}
