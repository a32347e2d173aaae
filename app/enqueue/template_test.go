package enqueue

import "testing"

func TestNamesOfPlans(t *testing.T) {
	for spec, want := range map[string]string{
		"# Add a login page":                          "add-a-login-page",
		"one two three four five six seven":           "one-two-three-four-five-six",
		"Überlange Wörter, schrecklich_unterstrichen": "berlange-w-rter-schrecklich-unte",
		"an extraordinarily-long-phrase -indeed":      "an-extraordinarily-long-phrase-i",
		"AZ 09/a:b@c[d`e{f":                           "az-09-a-b-c-d",
		"!!!":                                         "",
	} {
		if got := slugOf(spec, 6); got != want || len(got) > 32 {
			t.Errorf("%q: got %q, want %q", spec, got, want)
		}
	}
}
