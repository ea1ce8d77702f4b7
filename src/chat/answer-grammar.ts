import type { GrammarSource, StructuralFormat, StructuralTag } from '../grammar/types.ts';
import type { ReasoningMarks } from './parser/answer.ts';
import type { BoundTool, ToolStyle } from './styles/index.ts';
import type { CallGrammar } from './styles/style.ts';
import type { ReasoningPlace } from './template/reasoning.ts';

export interface AnswerBounds {
  readonly style: ToolStyle | undefined;
  /** Tools that the model may call. */
  readonly tools: readonly BoundTool[];
  /** Whether the answer must be a tool call. */
  readonly required: boolean;
  readonly parallel: boolean;
  readonly output: GrammarSource | undefined;
  /** Texts that start tool calls, when calls are not allowed. */
  readonly forbidden: readonly string[];
  readonly reasoning: ReasoningMarks | undefined;
  /** Whether the answer starts inside reasoning, may start with it, or comes after it. */
  readonly place: ReasoningPlace;
}

/** Builds the grammar of an answer: reasoning is unconstrained, the rest is constrained. Undefined: no constraints. */
export function answerGrammar(bounds: AnswerBounds): GrammarSource | undefined {
  const { reasoning, style } = bounds;
  const bound = boundPart(bounds);
  if (!bound) return undefined;
  const isFirst = !reasoning || bounds.place === 'after';
  if ('kind' in bound && isFirst && style?.answerBegin === undefined) return bound;
  const format = 'kind' in bound ? outputFormat(bound, style) : bound;
  return { kind: 'structural', format: afterReasoning(format, bounds) };
}

/** Adds the text that some families write before an answer to the user. */
function outputFormat(output: GrammarSource, style: ToolStyle | undefined): StructuralFormat {
  const format = toFormat(output);
  return style?.answerBegin === undefined ? format : sequence(text(style.answerBegin), format);
}

function afterReasoning(part: StructuralFormat, { reasoning, place }: AnswerBounds): StructuralFormat {
  if (!reasoning || place === 'after') return part;
  const { open, close } = reasoning;
  const [end = ''] = close;
  const thought = (begin: string): StructuralFormat => ({
    type: 'tag',
    begin,
    content: { type: 'any_text' },
    end,
  });
  // Models write line breaks between reasoning and answer.
  const rest: readonly StructuralFormat[] = [{ type: 'regex', pattern: '[ \\n]{0,4}' }, part];
  const within = place === 'within' ? thought('') : thought(open[0] ?? '');
  const answer = sequence(within, ...rest);
  return place === 'within' ? answer : { type: 'or', elements: [answer, part] };
}

function boundPart({
  style,
  tools,
  required,
  parallel,
  output,
  forbidden,
}: AnswerBounds): GrammarSource | StructuralFormat | undefined {
  const grammar = style?.grammar;
  if (!output && forbidden.length > 0) return { type: 'any_text', excludes: forbidden };
  if (tools.length === 0 || !grammar) return output;
  const calls = () => callsFormat(grammar, tools, parallel);
  if (required) return calls();
  if (output) return { type: 'or', elements: [calls(), outputFormat(output, style)] };
  if (grammar.triggers.length === 0) return undefined;
  const tags = grammar.block ? [blockTag(grammar, grammar.block, tools, parallel)] : tools.map(grammar.call);
  return { type: 'triggered_tags', triggers: grammar.triggers, tags, stop_after_first: !parallel };
}

/** The format of one or several calls. */
function callsFormat(grammar: CallGrammar, tools: readonly BoundTool[], parallel: boolean): StructuralFormat {
  if (grammar.block) return blockTag(grammar, grammar.block, tools, parallel);
  return listOf(grammar, tools, parallel);
}

const listOf = (grammar: CallGrammar, tools: readonly BoundTool[], parallel: boolean): StructuralFormat => ({
  type: 'tags_with_separator',
  tags: tools.map(grammar.call),
  separator: grammar.separator,
  at_least_one: true,
  stop_after_first: !parallel,
});

const blockTag = (
  grammar: CallGrammar,
  { begin, end }: { begin: string; end: string },
  tools: readonly BoundTool[],
  parallel: boolean,
): StructuralTag => ({ type: 'tag', begin, content: listOf(grammar, tools, parallel), end });

const sequence = (...elements: readonly StructuralFormat[]): StructuralFormat => ({
  type: 'sequence',
  elements,
});

const text = (value: string): StructuralFormat => ({ type: 'const_string', value });

function toFormat(source: GrammarSource): StructuralFormat {
  switch (source.kind) {
    case 'json':
      return { type: 'json_schema', json_schema: { type: 'object' } };
    case 'json_schema':
      return { type: 'json_schema', json_schema: source.schema };
    case 'ebnf':
      return { type: 'grammar', grammar: withRoot(source.text, source.root) };
    case 'regex':
      return { type: 'regex', pattern: source.pattern };
    case 'choice':
      return { type: 'or', elements: source.texts.map(text) };
    case 'structural':
      return source.format;
  }
}

/** Renames the start rule to `root`, which grammars inside other formats must have. */
function withRoot(grammar: string, root = 'root'): string {
  if (root === 'root') return grammar;
  const renamed = grammar.replaceAll(/\broot\b(?=\s*::=)/g, 'root_of_text');
  return `${renamed}\nroot ::= ${root}\n`;
}
