import type { GrammarSource, StructuralFormat, StructuralTag } from '../grammar/types.ts';
import type { ReasoningDelimiters } from './parser/answer-parser.ts';
import type { GrammarTool, ToolCallFormat } from './tool-call-formats/index.ts';
import type { CallGrammar } from './tool-call-formats/tool-call-format.ts';
import type { ReasoningState } from './template/reasoning.ts';

export interface AnswerConstraints {
  readonly toolCallFormat: ToolCallFormat | undefined;
  /** Tools that the model may call. */
  readonly tools: readonly GrammarTool[];
  /** Whether the answer must be a tool call. */
  readonly requiresCall: boolean;
  readonly allowsParallelCalls: boolean;
  readonly output: GrammarSource | undefined;
  /** Texts that start tool calls, when calls are not allowed. */
  readonly forbiddenTriggers: readonly string[];
  readonly reasoning: ReasoningDelimiters | undefined;
  /** Whether the answer starts inside reasoning, may start with it, or comes after it. */
  readonly reasoningState: ReasoningState;
}

/** Builds the grammar of an answer: reasoning is unconstrained, the rest is constrained. Undefined: no constraints. */
export function buildAnswerGrammar(constraints: AnswerConstraints): GrammarSource | undefined {
  const { reasoning, toolCallFormat } = constraints;
  const constrainedPart = buildConstrainedPart(constraints);
  if (!constrainedPart) return undefined;
  const isFirst = !reasoning || constraints.reasoningState === 'after';
  if ('kind' in constrainedPart && isFirst && toolCallFormat?.answerPrefix === undefined)
    return constrainedPart;
  const format =
    'kind' in constrainedPart ? withAnswerPrefix(constrainedPart, toolCallFormat) : constrainedPart;
  return { kind: 'structural', format: withReasoning(format, constraints) };
}

/** Adds the text that some families write before an answer to the user. */
function withAnswerPrefix(
  output: GrammarSource,
  toolCallFormat: ToolCallFormat | undefined,
): StructuralFormat {
  const format = toFormat(output);
  return toolCallFormat?.answerPrefix === undefined
    ? format
    : sequence(constString(toolCallFormat.answerPrefix), format);
}

function withReasoning(
  part: StructuralFormat,
  { reasoning, reasoningState }: AnswerConstraints,
): StructuralFormat {
  if (!reasoning || reasoningState === 'after') return part;
  const { open, close } = reasoning;
  const [end = ''] = close;
  const reasoningTag = (begin: string): StructuralFormat => ({
    type: 'tag',
    begin,
    content: { type: 'any_text' },
    end,
  });
  // Models write line breaks between reasoning and answer.
  const rest: readonly StructuralFormat[] = [{ type: 'regex', pattern: '[ \\n]{0,4}' }, part];
  const reasoningPart = reasoningState === 'within' ? reasoningTag('') : reasoningTag(open[0] ?? '');
  const answer = sequence(reasoningPart, ...rest);
  return reasoningState === 'within' ? answer : { type: 'or', elements: [answer, part] };
}

function buildConstrainedPart({
  toolCallFormat,
  tools,
  requiresCall,
  allowsParallelCalls,
  output,
  forbiddenTriggers,
}: AnswerConstraints): GrammarSource | StructuralFormat | undefined {
  const grammar = toolCallFormat?.grammar;
  if (!output && forbiddenTriggers.length > 0) return { type: 'any_text', excludes: forbiddenTriggers };
  if (tools.length === 0 || !grammar) return output;
  const calls = () => callsFormat(grammar, tools, allowsParallelCalls);
  if (requiresCall) return calls();
  if (output) return { type: 'or', elements: [calls(), withAnswerPrefix(output, toolCallFormat)] };
  if (grammar.triggers.length === 0) return undefined;
  const tags = grammar.block
    ? [buildBlockTag(grammar, grammar.block, tools, allowsParallelCalls)]
    : tools.map(grammar.buildCallTag);
  return { type: 'triggered_tags', triggers: grammar.triggers, tags, stop_after_first: !allowsParallelCalls };
}

/** The format of one or several calls. */
function callsFormat(
  grammar: CallGrammar,
  tools: readonly GrammarTool[],
  allowsParallelCalls: boolean,
): StructuralFormat {
  if (grammar.block) return buildBlockTag(grammar, grammar.block, tools, allowsParallelCalls);
  return buildCallList(grammar, tools, allowsParallelCalls);
}

const buildCallList = (
  grammar: CallGrammar,
  tools: readonly GrammarTool[],
  allowsParallelCalls: boolean,
): StructuralFormat => ({
  type: 'tags_with_separator',
  tags: tools.map(grammar.buildCallTag),
  separator: grammar.separator,
  at_least_one: true,
  stop_after_first: !allowsParallelCalls,
});

const buildBlockTag = (
  grammar: CallGrammar,
  { begin, end }: { begin: string; end: string },
  tools: readonly GrammarTool[],
  allowsParallelCalls: boolean,
): StructuralTag => ({
  type: 'tag',
  begin,
  content: buildCallList(grammar, tools, allowsParallelCalls),
  end,
});

const sequence = (...elements: readonly StructuralFormat[]): StructuralFormat => ({
  type: 'sequence',
  elements,
});

const constString = (value: string): StructuralFormat => ({ type: 'const_string', value });

function toFormat(source: GrammarSource): StructuralFormat {
  switch (source.kind) {
    case 'json':
      return { type: 'json_schema', json_schema: { type: 'object' } };
    case 'json_schema':
      return { type: 'json_schema', json_schema: source.schema };
    case 'ebnf':
      return { type: 'grammar', grammar: renameRootRule(source.text, source.root) };
    case 'regex':
      return { type: 'regex', pattern: source.pattern };
    case 'choice':
      return { type: 'or', elements: source.texts.map(constString) };
    case 'structural':
      return source.format;
  }
}

/** Renames the start rule to `root`, which grammars inside other formats must have. */
function renameRootRule(grammar: string, root = 'root'): string {
  if (root === 'root') return grammar;
  const renamed = grammar.replaceAll(/\broot\b(?=\s*::=)/g, 'root_of_text');
  return `${renamed}\nroot ::= ${root}\n`;
}
