// Package readparagraph is GRASP's tool to read the whole paragraph of a sentence that a search has found.
package readparagraph

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/schema"
	"github.com/forage-rl/forage/core/sdk/text"
)

// Name and Argument are the tool's and its argument's.
const (
	Name     = "read_paragraph"
	Argument = "paragraph_id"
)

// Config is the configuration of the retriever.
type Config struct {
	Corpus      schema.Ref `forage:"corpus" type:"corpus" doc:"The corpus of the indexes that the agent's other tools search."`
	RequiresHit bool       `forage:"read_requires_hit" default:"true" doc:"Only what an earlier call of the episode returned can be read; else whatever the corpus has, by its id." source:"default (not in the paper): it defines reading for a retrieved sentence"`
	Description string     `forage:"description" default:"Reads the whole paragraph of a sentence that a search has found." doc:"What a protocol that describes its tools tells the agent about this one." source:"default (not in the paper)"`
}

// Plugin describes the retriever.
func Plugin() sdk.RetrieverPlugin {
	return sdk.NewRetriever(Name, "Read a whole paragraph, by the id that a search named (also by the id of one of its sentences, or its title).", "GRASP (arXiv:2607.10463)",
		func(_ context.Context, c Config, host sdk.Host) (sdk.Retriever, error) {
			return retriever{c, host}, nil
		})
}

type retriever struct {
	config Config
	host   sdk.Host
}

// Tool implements [sdk.Retriever].
func (r retriever) Tool(context.Context) (sdk.Tool, error) {
	return sdk.Tool{Name: Name, Description: r.config.Description, Arguments: []sdk.Argument{
		{Name: Argument, Type: "string", Description: "The id of a paragraph, as a search named it.", Required: true},
	}}, nil
}

// Call implements [sdk.Retriever].
func (r retriever) Call(ctx context.Context, req sdk.CallRequest) (sdk.CallResponse, error) {
	out := sdk.CallResponse{Results: make([]sdk.CallResult, len(req.Calls))}
	ids := make([]string, len(req.Calls)) // of the units to read, "" where there is none
	asked := make([]string, len(req.Calls))
	var byTitle []int // calls that name none of the ids that were seen
	for i, c := range req.Calls {
		var problem string
		if asked[i], problem = readID(c.Arguments); problem != "" {
			out.Results[i].Error = problem
		} else if ids[i] = seenAs(c.Seen, asked[i]); ids[i] == "" {
			byTitle = append(byTitle, i)
		}
	}
	titles, err := r.titles(ctx, req.Calls, byTitle)
	if err != nil {
		return sdk.CallResponse{}, err
	}
	for _, i := range byTitle {
		found := titled(units(req.Calls[i].Seen), titles, asked[i])
		switch {
		case len(found) == 1:
			ids[i] = found[0]
		case len(found) > 1:
			out.Results[i].Error = fmt.Sprintf("Several paragraphs have this title: %s.", strings.Join(found, ", "))
		case r.config.RequiresHit:
			out.Results[i].Error = fmt.Sprintf("No search has found a paragraph %q.", asked[i])
		default:
			if err := r.readAny(ctx, asked[i], &out.Results[i]); err != nil {
				return sdk.CallResponse{}, err
			}
		}
	}
	return out, r.read(ctx, ids, out.Results)
}

// read fills in the units that have ids, with one request.
func (r retriever) read(ctx context.Context, ids []string, results []sdk.CallResult) error {
	wanted := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == "" })
	if len(wanted) == 0 {
		return nil
	}
	units, err := r.documents(ctx, wanted)
	if err != nil {
		return err
	}
	for i, id := range ids {
		if id != "" {
			results[i].Hits, units = units[:1:1], units[1:]
		}
	}
	return nil
}

// readAny reads a unit that no search has returned.
func (r retriever) readAny(ctx context.Context, id string, result *sdk.CallResult) error {
	units, err := r.documents(ctx, []string{id})
	if errors.Is(err, sdk.ErrInvalidRequest) {
		result.Error = fmt.Sprintf("There is no paragraph %q.", id)
		return nil
	}
	result.Hits = units
	return err
}

// titles looks up the titles of all that these calls have seen, by id.
func (r retriever) titles(ctx context.Context, calls []sdk.Call, which []int) (map[string]string, error) {
	var ids []string
	for _, i := range which {
		ids = append(ids, units(calls[i].Seen)...)
	}
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) == 0 {
		return nil, nil
	}
	found, err := r.documents(ctx, ids)
	if err != nil {
		return nil, err
	}
	titles := map[string]string{}
	for i, h := range found {
		titles[ids[i]] = h.Title
	}
	return titles, nil
}

// documents reads units of the corpus; what is read is a hit without a score.
func (r retriever) documents(ctx context.Context, ids []string) ([]episode.Hit, error) {
	units, err := r.host.Documents(ctx, r.config.Corpus.Handle, ids)
	if err != nil {
		return nil, fmt.Errorf("read from corpus %s: %w", r.config.Corpus.Handle, err)
	}
	if len(units) != len(ids) {
		return nil, fmt.Errorf("read from corpus %s: %d units for %d ids", r.config.Corpus.Handle, len(units), len(ids))
	}
	return units, nil
}

func readID(arguments map[string]any) (id, problem string) {
	value, given := arguments[Argument]
	if !given {
		return "", fmt.Sprintf("Reading needs the argument %s.", Argument)
	}
	id, isText := value.(string)
	if !isText {
		return "", fmt.Sprintf("The argument %s must be text.", Argument)
	}
	if id = text.Trim(id); id == "" {
		return "", fmt.Sprintf("The argument %s is empty.", Argument)
	}
	return id, ""
}

// unit is the id of what is read for an earlier hit: its paragraph, or its document where that has no paragraphs.
func unit(s sdk.Seen) string {
	if s.ParagraphID != "" {
		return s.ParagraphID
	}
	return s.DocumentID
}

// units lists what the earlier hits allow to read, each once.
func units(seen []sdk.Seen) []string {
	var list []string
	for _, s := range seen {
		if id := unit(s); !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	return list
}

// seenAs finds the unit that an id stands for among what was seen, "" for none: the id of a paragraph, as it is before
// without regard to case and white space, or of a sentence in it.
func seenAs(seen []sdk.Seen, id string) string {
	for _, same := range []func(a, b string) bool{
		func(a, b string) bool { return a == b },
		func(a, b string) bool { return normal(a) == normal(b) },
	} {
		for _, s := range seen {
			if same(unit(s), id) || s.SentenceID != "" && same(s.SentenceID, id) {
				return unit(s)
			}
		}
	}
	return ""
}

// titled lists the units with a title, without regard to case and white space.
func titled(ids []string, titles map[string]string, title string) []string {
	var found []string
	for _, id := range ids {
		if normal(titles[id]) == normal(title) {
			found = append(found, id)
		}
	}
	return found
}

// normal is a name in lower case without white space: an agent also copies what the core has broken up by a blank.
func normal(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text.Lower(name))
}
