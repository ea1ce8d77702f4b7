import type { StructuralFormat, StructuralTag } from '../../grammar/types.ts';
import type { Sink } from '../parser/sink.ts';
import type { Reading, Source } from '../parser/source.ts';

/** A tool whose calls are to be bound. */
export interface BoundTool {
  readonly name: string;
  readonly schema: Readonly<Record<string, unknown>>;
  readonly strict: boolean;
}

export interface WrittenCall {
  readonly id: string;
  readonly name: string;
  /** JSON of an object. */
  readonly arguments: string;
}

/** How an answer with calls is bound. */
export interface CallGrammar {
  /** Texts after which a call must follow; none: only a call at the very beginning is told from text. */
  readonly triggers: readonly string[];
  /** Around all calls of an answer. */
  readonly block?: { readonly begin: string; readonly end: string };
  /** Between two calls. */
  readonly separator: string;
  readonly call: (tool: BoundTool) => StructuralTag;
}

/** What a trial of the template shows. */
export interface StyleEvidence {
  readonly source: string;
  /** A call of `probe_tool` with the argument `probe_key` = `probe value`, as the template writes it; empty: it does not. */
  readonly call: string;
}

/** A model family's way of writing calls. */
export interface ToolStyle {
  readonly name: string;
  /** Whether a template teaches this style. */
  isTaught(evidence: StyleEvidence): boolean;
  /** Texts that begin calls. */
  readonly triggers: readonly string[];
  /** Texts that begin calls at the very beginning of an answer only. */
  readonly opening?: readonly string[];
  /** Further texts that the parser must see. */
  readonly markers?: readonly string[];
  /**
   * Reads one or several calls; their trigger comes next.
   * @returns whether it was well formed; else what was held is content
   */
  readonly read?: (source: Source, sink: Sink) => Reading<boolean>;
  /**
   * Instead, where the whole answer is made of addressed parts, tools or none.
   * @param continues the answer begins within a part
   */
  readonly readAnswer?: (source: Source, sink: Sink, continues: boolean) => Reading<void>;
  /** Past calls as the model would write them, for templates that leave them out. */
  readonly write?: (calls: readonly WrittenCall[]) => string;
  /** What stands before an answer to the user, where that must be said. */
  readonly answerBegin?: string;
  /** Undefined: calls of this style cannot be bound. */
  readonly grammar?: CallGrammar;
}

/** `{ "name": ..., "arguments": {...} }` and the like, bound to a tool. */
export const callObject = (
  tool: BoundTool,
  around: { begin?: string; end?: string; nameKey?: string; argumentsKey?: string } = {},
): StructuralTag => {
  const { begin = '', end = '', nameKey = 'name', argumentsKey = 'arguments' } = around;
  return {
    type: 'tag',
    begin: `${begin}{"${nameKey}": ${JSON.stringify(tool.name)}, "${argumentsKey}": `,
    content: argumentsOf(tool),
    end: `}${end}`,
  };
};

/** A tool's arguments as JSON: its own schema, or any object where that cannot be kept and is not strict. */
export const argumentsOf = (tool: BoundTool): StructuralFormat => ({
  type: 'json_schema',
  json_schema: tool.schema,
  ...(tool.strict ? {} : { otherwise: { type: 'object' } }),
});

export const writeCallObject = (call: WrittenCall, argumentsKey = 'arguments'): string =>
  `{"name": ${JSON.stringify(call.name)}, "${argumentsKey}": ${call.arguments}}`;
