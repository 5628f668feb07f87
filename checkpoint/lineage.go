package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Lineage is the tree of segments that a run consists of, over all directories that it spans, with what each segment did and
// what of it counts.
type Lineage struct {
	Directories []LineageDirectory `json:"directories"` // the run's own, then that of its parent, of the parent's parent, …
	Segments    []LineageSegment   `json:"segments"`    // by number
	Retained    Work               `json:"retained"`    // updates that count, and the completions that they consumed
	RolledBack  Work               `json:"rolled_back"` // preserved and excluded
	Dropped     int                `json:"dropped"`     // completions of groups that were left out of retained updates
	Finished    bool               `json:"finished"`
}

// LineageDirectory is a directory that a run spans. What a parent did up to the fork is known without its directory.
type LineageDirectory struct {
	Dir    string  `json:"dir"`              // relative to the directory before it; the first is "."
	Parent *Parent `json:"parent,omitempty"` // what it was forked from
	Since  int     `json:"since,omitempty"`  // events that a parent has recorded since the fork, which are no part of this run
	Err    error   `json:"-"`                // why a parent's own directory was not looked at: [ErrNoParent], or that it has changed
}

// LineageSegment is a segment with what it did.
type LineageSegment struct {
	Segment
	Directory int   `json:"directory"`       // index in Directories
	First     int   `json:"first,omitempty"` // update that it recorded; 0: none
	Last      int   `json:"last,omitempty"`
	Retained  Work  `json:"retained"` // of these updates
	Excluded  Work  `json:"excluded"`
	Dropped   int   `json:"dropped,omitempty"` // completions of groups that were left out
	Evaluated []int `json:"evaluated"`         // updates with an evaluation of its own that counts
	Unused    []int `json:"unused"`            // and with one that does not
	Saved     []int `json:"saved"`             // updates with a checkpoint of its own
	Finished  bool  `json:"finished,omitempty"`
}

// ReadLineage reads the lineage of a run as it is now. The directories of a forked run's parents are looked for where
// run.json says and in those that are given.
func ReadLineage(dir string, parents ...string) (*Lineage, error) {
	rec, err := Read(dir)
	if err != nil {
		return nil, err
	}
	h := &rec.History
	l := &Lineage{Retained: h.Retained(), RolledBack: h.RolledBack, Finished: h.Finished, Segments: make([]LineageSegment, len(h.Segments))}
	for _, u := range h.Updates {
		if u.Dropped != nil {
			l.Dropped += u.Dropped.Lines
		}
	}
	name := "."
	for r := rec; r != nil; r = r.Parent {
		d := LineageDirectory{Dir: name, Parent: r.Run.Parent}
		switch {
		case len(l.Directories) == 0:
		case dir == "":
			d.Err = fmt.Errorf("%w: nor is the run that was forked from it", ErrNoParent)
		default:
			child := l.Directories[len(l.Directories)-1].Parent
			if dir, d.Err = (&RunFile{Parent: child}).LocateParent(dir, parents...); d.Err == nil {
				now, err := readRecord(dir)
				if err != nil {
					return nil, err
				}
				d.Since = len(now.Events) - child.Head.Seq
			}
		}
		l.Directories = append(l.Directories, d)
		if err := l.take(r, len(l.Directories)-1, h); err != nil {
			return nil, err
		}
		if r.Run.Parent != nil {
			name = r.Run.Parent.Dir
		}
	}
	return l, nil
}

// take takes in the events of one directory; the history is that of the whole run.
func (l *Lineage) take(rec *Record, directory int, h *History) error {
	n := rec.History.Inherited
	var s *LineageSegment
	for _, e := range rec.Events {
		switch e.Kind {
		case KindSegment:
			n++
			s = &l.Segments[n-1]
			*s = LineageSegment{Segment: h.Segments[n-1], Directory: directory, Evaluated: []int{}, Unused: []int{}, Saved: []int{}}
			for _, c := range h.of(n).checkpoints {
				if c.Segment == n && !c.Pruned {
					s.Saved = append(s.Saved, c.Update)
				}
			}
		case KindUpdate:
			var u Update
			if err := unmarshal(e.Body, &u); err != nil {
				return err
			}
			s.update(u, u.Update <= h.Update() && h.Updates[u.Update-1].Segment == n)
		case KindEvaluation:
			var v Evaluation
			if err := unmarshal(e.Body, &v); err != nil {
				return err
			}
			if counts, ok := h.Evaluation(v.Update); ok && counts.Segment == n {
				s.Evaluated = append(s.Evaluated, v.Update)
			} else {
				s.Unused = append(s.Unused, v.Update)
			}
		}
		s.Finished = e.Kind == KindFinished
	}
	return nil
}

func (s *LineageSegment) update(u Update, counts bool) {
	if s.First == 0 {
		s.First = u.Update
	}
	s.Last = u.Update
	sum := &s.Excluded
	if counts {
		sum = &s.Retained
	}
	sum.Updates++
	sum.Responses += u.Rollouts.Lines
	if u.Dropped != nil {
		s.Dropped += u.Dropped.Lines
	}
}

// Changed says why the lineage cannot be trusted: the directory of a parent is there and has changed. A parent that is not there is no reason.
func (l *Lineage) Changed() error {
	var errs []error
	for _, d := range l.Directories {
		if d.Err != nil && !errors.Is(d.Err, ErrNoParent) {
			errs = append(errs, d.Err)
		}
	}
	return errors.Join(errs...)
}

// Write prints the lineage: the directories if there are several, the tree, the totals.
func (l *Lineage) Write(w io.Writer) error {
	var b strings.Builder
	for i, d := range l.Directories[1:] {
		p := l.Directories[i].Parent
		fmt.Fprintf(&b, "forked from %s at update %d of segment %d: %s", d.Dir, p.Update, p.Segment, p.Reason)
		switch {
		case d.Err != nil:
			fmt.Fprintf(&b, " (%v)", d.Err)
		case d.Since > 0:
			fmt.Fprintf(&b, " (it has recorded %d events since, which are no part of this run)", d.Since)
		}
		b.WriteByte('\n')
	}
	if len(l.Directories) > 1 {
		b.WriteByte('\n')
	}
	l.tree(&b, 0, "")
	if len(l.Segments) > 0 {
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "retained: %s, %s consumed", count(l.Retained.Updates, "update"), count(l.Retained.Responses, "response"))
	if !l.Finished {
		b.WriteString(" so far; the run is not finished")
	}
	fmt.Fprintf(&b, "\nrolled back: %s, %s preserved and excluded\n", count(l.RolledBack.Updates, "update"), count(l.RolledBack.Responses, "response"))
	if l.Dropped > 0 {
		fmt.Fprintf(&b, "dropped: %s of groups without variance, beside the retained updates\n", count(l.Dropped, "response"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// tree prints the segments that go on from one, and those that go on from these.
func (l *Lineage) tree(b *strings.Builder, parent int, indent string) {
	var children []*LineageSegment
	for i := range l.Segments {
		if l.Segments[i].Parent == parent {
			children = append(children, &l.Segments[i])
		}
	}
	for i, s := range children {
		branch, below := "├── ", "│   "
		switch {
		case parent == 0:
			branch, below = "", ""
		case i == len(children)-1:
			branch, below = "└── ", "    "
		}
		fmt.Fprintf(b, "%s%s%s\n", indent, branch, l.heading(s))
		goesOn := slices.ContainsFunc(l.Segments, func(c LineageSegment) bool { return c.Parent == s.Segment.Segment })
		rail := "    "
		if goesOn {
			rail = "│   "
		}
		for _, line := range s.details() {
			fmt.Fprintf(b, "%s%s%s%s\n", indent, below, rail, line)
		}
		l.tree(b, s.Segment.Segment, indent+below)
	}
}

func (l *Lineage) heading(s *LineageSegment) string {
	text := fmt.Sprintf("segment %d", s.Segment.Segment)
	if s.Parent > 0 {
		text += fmt.Sprintf(" from update %d", s.Update)
	}
	text += ": " + s.Reason
	if s.Finished {
		text += ", finished"
	}
	if on := s.Versions["backend"]; on != "" {
		text += ", on " + on
	}
	if s.Directory > 0 {
		text += ", in " + l.Directories[s.Directory].Dir
	}
	return text
}

// details says what a segment did, a line each.
func (s *LineageSegment) details() []string {
	if s.First == 0 && len(s.Evaluated)+len(s.Unused) == 0 {
		return []string{"no updates"}
	}
	var lines []string
	if s.First > 0 {
		text := "update " + strconv.Itoa(s.First)
		if s.Last > s.First {
			text = fmt.Sprintf("updates %d to %d", s.First, s.Last)
		}
		switch {
		case s.Excluded.Updates == 0:
			text += fmt.Sprintf(": retained, %s consumed", count(s.Retained.Responses, "response"))
		case s.Retained.Updates == 0:
			text += fmt.Sprintf(": rolled back, %s excluded", count(s.Excluded.Responses, "response"))
		default:
			text += fmt.Sprintf(": %d retained, %d rolled back; %s consumed, %d excluded", s.Retained.Updates, s.Excluded.Updates, count(s.Retained.Responses, "response"), s.Excluded.Responses)
		}
		lines = append(lines, text)
	}
	if s.Dropped > 0 {
		lines = append(lines, "dropped: "+count(s.Dropped, "response"))
	}
	for _, e := range []struct {
		of   []int
		what string
	}{{s.Evaluated, ""}, {s.Unused, " excluded"}} {
		if len(e.of) > 0 {
			lines = append(lines, fmt.Sprintf("evaluated%s: %s", e.what, strings.Trim(fmt.Sprint(e.of), "[]")))
		}
	}
	return lines
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
