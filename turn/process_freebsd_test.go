package turn

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLookUp compares the kernel's data about two processes with other sources.
func TestLookUp(t *testing.T) {
	self, err := lookUp(os.Getpid())
	if err != nil || self.pid != os.Getpid() || self.parent != os.Getppid() || self.group != unix.Getpgrp() {
		t.Errorf("this process is %+v, %v", self, err)
	}
	dir := t.TempDir()
	cmd := exec.Command("sleep", "60")
	cmd.Env = []string{contextEntry(dir)}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child, err := lookUp(cmd.Process.Pid)
	if err != nil || child.parent != self.pid || child.start <= self.start && len(child.start) <= len(self.start) {
		t.Errorf("the child is %+v, %v", child, err)
	}
	if !slices.Contains(processes(), child) || !child.belongsTo(dir) || child.belongsTo(dir+"x") || self.belongsTo(dir) {
		t.Errorf("the child %+v is not listed, or belongs to another attempt", child)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if child.lives() {
		t.Error("a process that has ended lives")
	}
}
