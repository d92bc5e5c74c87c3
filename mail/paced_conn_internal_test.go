package mail

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// The clock of these tests is that of synctest: time advances only while the test waits.

const patience = 30 * time.Second // our deadline

// startPaced returns our end of a connection at the beginning of a phase. talk runs on the other end.
func startPaced(t *testing.T, talk func(theirs net.Conn)) *pacedConn {
	t.Helper()
	a, theirs := net.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		talk(theirs)
	}()
	t.Cleanup(func() { a.Close(); theirs.Close(); <-ended })
	ours := newPacedConn(a)
	ours.SetDeadline(time.Now().Add(patience))
	return ours
}

// drip sends n bytes with a pause before each, and hangs up.
func drip(conn net.Conn, n int, pause time.Duration) {
	defer conn.Close()
	for range n {
		<-time.After(pause)
		if _, err := conn.Write([]byte("x")); err != nil {
			return
		}
	}
}

// TestSlowConnection checks that a mail of 25 MB over a line of 100 kB/s comes in although it takes
// eight times the deadline, also with a pause that is shorter than the deadline.
func TestSlowConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := startPaced(t, func(theirs net.Conn) {
			defer theirs.Close()
			for range 250 {
				<-time.After(time.Second)
				theirs.Write(make([]byte, 100_000))
			}
			<-time.After(patience - time.Second)
			theirs.Write([]byte("\r\n"))
		})
		ours.expect(25 << 20)
		if n, err := io.Copy(io.Discard, ours); n != 25_000_002 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}

func TestSilentPeerTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := startPaced(t, func(theirs net.Conn) {
			<-time.After(10 * time.Second)
			theirs.Write([]byte("x"))
		})
		ours.expect(25 << 20)
		began := time.Now()
		_, err := io.Copy(io.Discard, ours)
		if elapsed := time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || elapsed != 10*time.Second+patience {
			t.Errorf("after %v: %v", elapsed, err)
		}
	})
}

// TestDripTimesOut checks that a server that sends single bytes holds a read for the deadline and the
// time of the expected bytes at the slowest rate, and not for longer.
func TestDripTimesOut(t *testing.T) {
	for _, expected := range []int64{0, minRate * 60} {
		synctest.Test(t, func(t *testing.T) {
			ours := startPaced(t, func(theirs net.Conn) { drip(theirs, 1000, patience-time.Second) })
			ours.expect(expected)
			began := time.Now()
			_, err := io.Copy(io.Discard, ours)
			bound := patience + timeFor(expected)
			if elapsed := time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || elapsed != bound {
				t.Errorf("after %v, not %v: %v", elapsed, bound, err)
			}
		})
	}
}

// TestPhaseMovesDeadline checks that a new phase can begin during a read.
func TestPhaseMovesDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next, last := make(chan bool), make(chan bool)
		ours := startPaced(t, func(theirs net.Conn) {
			<-time.After(patience - time.Second)
			close(next)
			<-time.After(patience - time.Second)
			close(last)
			<-time.After(10 * patience)
			drip(theirs, 1, 0)
		})
		go func() {
			<-next
			ours.SetDeadline(time.Now().Add(patience))
			<-last
			ours.SetDeadline(time.Time{})
		}()
		if n, err := io.Copy(io.Discard, ours); n != 1 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}

// TestOwnTimeDoesNotCount checks that neither the time between two reads nor a pause counts against
// the peer.
func TestOwnTimeDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := startPaced(t, func(theirs net.Conn) { drip(theirs, 2, 20*time.Second) })
		one := make([]byte, 1)
		for range 2 {
			if _, err := ours.Read(one); err != nil {
				t.Fatal(err)
			}
			<-time.After(5 * patience)
			ours.expect(minRate * 10)
		}

		ours = startPaced(t, func(theirs net.Conn) { drip(theirs, 1, 6*patience) })
		go func() {
			<-time.After(patience / 2)
			ours.pause()
			<-time.After(5 * patience)
			ours.resume()
		}()
		if _, err := ours.Read(one); err != nil {
			t.Error("in a pause:", err)
		}
	})
}

// TestSlowWrites checks that writes are paced in the same way. The pipe has no buffer, so a write
// ends when the peer has read it.
func TestSlowWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 20 << 20
		ours := startPaced(t, func(theirs net.Conn) {
			piece := make([]byte, 20_000)
			for {
				<-time.After(time.Second)
				if _, err := io.ReadFull(theirs, piece); err != nil {
					return
				}
			}
		})
		ours.expect(size)
		if n, err := ours.Write(make([]byte, size)); n != size || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}

		ours = startPaced(t, func(net.Conn) {})
		ours.expect(size)
		began := time.Now()
		n, err := ours.Write(make([]byte, size))
		if elapsed := time.Since(began); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || elapsed != patience {
			t.Errorf("no reads: %d bytes in %v, %v", n, elapsed, err)
		}
	})
}
