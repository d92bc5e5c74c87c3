package setup

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/testkit/limittest"
)

func TestLimits(t *testing.T) {
	limittest.Run(t, []limittest.Limit{
		limittest.Duration("trialTime", 8*time.Second, 2, func(t *testing.T, d time.Duration) (inTime bool) {
			synctest.Test(t, func(t *testing.T) {
				err := Setup{Asker: new(terminal.Asker)}.trial(t.Context(), "a server", func(ctx context.Context) error {
					time.Sleep(d - 1)
					return ctx.Err()
				})
				inTime = err == nil
				if !inTime && err.Error() != "no answer within 8s" {
					t.Errorf("a trial that ends by its timeout: %v", err)
				}
			})
			return inTime
		}),
		limittest.Duration("trialTimeout", 20*time.Second, 2, func(t *testing.T, d time.Duration) (inTime bool) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := forTrial(context.Background())
				defer cancel()
				time.Sleep(d - 1)
				inTime = ctx.Err() == nil
			})
			return inTime
		}),
	})
}
