import type { StructuralFormat, StructuralTag } from '../../grammar/types.ts';
import type { DeltaCollector } from '../parser/delta-collector.ts';
import type { IncrementalParse, TextStream } from '../parser/text-stream.ts';

/** A tool whose calls the grammar constrains. */
export interface GrammarTool {
  readonly name: string;
  readonly schema: Readonly<Record<string, unknown>>;
  readonly strict: boolean;
}

export interface SerializedCall {
  readonly id: string;
  readonly name: string;
  /** A JSON object as text. */
  readonly arguments: string;
}

/** The grammar of answers with calls. */
export interface CallGrammar {
  /** Texts that must be followed by a call; without them, a call is recognized only at the start of the answer. */
  readonly triggers: readonly string[];
  /** Texts around all calls of an answer. */
  readonly block?: { readonly begin: string; readonly end: string };
  /** Text between two calls. */
  readonly separator: string;
  readonly buildCallTag: (tool: GrammarTool) => StructuralTag;
}

/** What identifies the tool call format of a template. */
export interface FormatEvidence {
  readonly source: string;
  /**
   * The template's rendering of a call of `probe_tool` with `probe_key` = `probe value`; empty if it renders no calls.
   */
  readonly call: string;
}

/** The tool call format of a model family: detection, parser, serializer and grammar. */
export interface ToolCallFormat {
  readonly name: string;
  /** Whether a template uses this format. */
  isUsedBy(evidence: FormatEvidence): boolean;
  /** Texts that start calls. */
  readonly triggers: readonly string[];
  /** Texts that start calls only at the start of an answer. */
  readonly startTriggers?: readonly string[];
  /** Other texts that the parser needs. */
  readonly markers?: readonly string[];
  /**
   * Reads one or several calls, starting at their trigger.
   * @returns whether they are well formed; otherwise the held text is content
   */
  readonly readCalls?: (source: TextStream, sink: DeltaCollector) => IncrementalParse<boolean>;
  /**
   * Reads the whole answer instead, in formats whose answers consist of addressed parts even without tools.
   * @param isContinuation whether the answer starts inside a part
   */
  readonly readWholeAnswer?: (
    source: TextStream,
    sink: DeltaCollector,
    isContinuation: boolean,
  ) => IncrementalParse<void>;
  /** Writes past calls as the model would, for templates that do not render calls. */
  readonly serialize?: (calls: readonly SerializedCall[]) => string;
  /** Text before an answer to the user, in formats that require one. */
  readonly answerPrefix?: string;
  /** Undefined when calls of this format cannot be constrained. */
  readonly grammar?: CallGrammar;
}

/** The format of a call object such as `{ "name": ..., "arguments": {...} }` for one tool. */
export const callObjectTag = (
  tool: GrammarTool,
  options: { begin?: string; end?: string; nameKey?: string; argumentsKey?: string } = {},
): StructuralTag => {
  const { begin = '', end = '', nameKey = 'name', argumentsKey = 'arguments' } = options;
  return {
    type: 'tag',
    begin: `${begin}{"${nameKey}": ${JSON.stringify(tool.name)}, "${argumentsKey}": `,
    content: jsonArgumentsFormat(tool),
    end: `}${end}`,
  };
};

/** JSON arguments that match the tool's schema; any object if it cannot be enforced and the tool is not strict. */
export const jsonArgumentsFormat = (tool: GrammarTool): StructuralFormat => ({
  type: 'json_schema',
  json_schema: tool.schema,
  ...(tool.strict ? {} : { otherwise: { type: 'object' } }),
});

export const writeCallObject = (call: SerializedCall, argumentsKey = 'arguments'): string =>
  `{"name": ${JSON.stringify(call.name)}, "${argumentsKey}": ${call.arguments}}`;
