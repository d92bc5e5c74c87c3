package listen_test

import (
	"flag"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "8") // these tests wait; the command line may say another number
	os.Exit(m.Run())
}
