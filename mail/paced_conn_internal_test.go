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

// paced returns our end of a connection at the beginning of a phase. talk runs on the other end.
func paced(t *testing.T, talk func(theirs net.Conn)) *pacedConn {
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

// A mail of 25 MB over a line of 100 kB/s needs eight times the deadline, and comes
// in. So it does with a pause that is shorter than the deadline.
func TestSlowConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := paced(t, func(theirs net.Conn) {
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
		ours := paced(t, func(theirs net.Conn) {
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

// However a server spreads its bytes, it holds us for the deadline and for what
// was expected of it at the slowest rate, and not for longer.
func TestDripTimesOut(t *testing.T) {
	for _, expected := range []int64{0, minRate * 60} {
		synctest.Test(t, func(t *testing.T) {
			ours := paced(t, func(theirs net.Conn) { drip(theirs, 1000, patience-time.Second) })
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

// A new phase can begin while we wait.
func TestPhaseMovesDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next, last := make(chan bool), make(chan bool)
		ours := paced(t, func(theirs net.Conn) {
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

// What we do in the meantime is not held against the other side: neither between
// two reads, nor in a pause.
func TestOwnTimeDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := paced(t, func(theirs net.Conn) { drip(theirs, 2, 20*time.Second) })
		one := make([]byte, 1)
		for range 2 {
			if _, err := ours.Read(one); err != nil {
				t.Fatal(err)
			}
			<-time.After(5 * patience)
			ours.expect(minRate * 10)
		}

		ours = paced(t, func(theirs net.Conn) { drip(theirs, 1, 6*patience) })
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

// What is sent is paced in the same way. The other side has a pipe without a
// buffer, so a byte is taken when it is read.
func TestSlowWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 20 << 20
		ours := paced(t, func(theirs net.Conn) {
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

		ours = paced(t, func(net.Conn) {})
		ours.expect(size)
		began := time.Now()
		n, err := ours.Write(make([]byte, size))
		if elapsed := time.Since(began); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || elapsed != patience {
			t.Errorf("nobody reads: %d bytes in %v, %v", n, elapsed, err)
		}
	})
}
