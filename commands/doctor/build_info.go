package doctor

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"runtime/debug"
	"strings"
)

// versionOf returns the version of a binary. It reads the file and does not run it.
func versionOf(path string) string {
	info := buildInfoOf(path)
	switch {
	case info == nil:
		return "not a Go program"
	case info.Main.Version == "":
		return "unknown"
	}
	return info.Main.Version
}

// The linker writes this header before the build information, at a multiple of 16 bytes: the mark,
// the size of a pointer, and flags. With infoInline, two strings follow, each after its length as a
// varint: the version of Go, and the information between two marks of infoMark bytes.
// debug/buildinfo defines the format. We do not import it, because it would link the readers of all
// kinds of executables, half a MiB (docs/decisions/0056-binary-size.md).
const (
	infoAlign  = 16
	infoHeader = 32
	infoInline = 2
	infoMark   = 16
)

// maxInfo limits the bytes of build information we read. Ours has 3 KiB.
const maxInfo = 256 << 10

// buildInfoOf returns the build information of a Go program, or nil.
func buildInfoOf(path string) *debug.BuildInfo {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	mark := append([]byte{0xff}, " Go buildinf:"...)
	for r := bufio.NewReaderSize(f, maxInfo); ; {
		head, err := r.Peek(infoHeader)
		if err != nil {
			return nil
		}
		if bytes.HasPrefix(head, mark) && head[15]&infoInline != 0 {
			following, _ := r.Peek(maxInfo) // the file may end earlier
			if info := parseBuildInfo(following[infoHeader:]); info != nil {
				return info
			}
		}
		if _, err := r.Discard(infoAlign); err != nil {
			return nil
		}
	}
}

// parseBuildInfo returns the build information at the beginning of data, or nil. A program may
// contain the mark elsewhere too.
func parseBuildInfo(data []byte) *debug.BuildInfo {
	r := bytes.NewReader(data)
	text := func() string {
		n, err := binary.ReadUvarint(r)
		if err != nil || n > uint64(r.Len()) {
			return ""
		}
		b := make([]byte, n)
		_, _ = io.ReadFull(r, b) // the length was checked above
		return string(b)
	}
	version, modules := text(), text()
	if !strings.Contains(version, "go1") && !strings.HasPrefix(version, "devel") || len(modules) < 2*infoMark {
		return nil
	}
	info, err := debug.ParseBuildInfo(modules[infoMark : len(modules)-infoMark])
	if err != nil {
		return nil
	}
	return info
}
