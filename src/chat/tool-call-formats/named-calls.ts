import { readArguments, readName } from '../parser/call-object.ts';
import type { DeltaCollector } from '../parser/delta-collector.ts';
import type { IncrementalParse, TextStream } from '../parser/text-stream.ts';
import { jsonArgumentsFormat, type ToolCallFormat } from './tool-call-format.ts';

/** The syntax of calls that are `begin` name `separator` {arguments} `end`, optionally inside a block. */
interface NamedCallSyntax {
  /** Texts that start a call; models may use any of them. */
  readonly begin: readonly string[];
  readonly separators: readonly string[];
  /** Optional texts after the arguments. */
  readonly end: readonly string[];
  readonly block?: { readonly begin: readonly string[]; readonly end: readonly string[] };
  /** Converts the written name to the tool's name. */
  readonly nameOf?: (writtenName: string) => string;
  /** Extracts the call's id from the written name, if it contains one. */
  readonly idOf?: (writtenName: string) => string | undefined;
  /** Text that precedes a separate id. */
  readonly idAfter?: string;
}

const createNamedCallReader = (syntax: NamedCallSyntax) =>
  function* read(source: TextStream, collector: DeltaCollector): IncrementalParse<boolean> {
    if (syntax.block) yield* source.accept(...syntax.block.begin);
    for (let count = 0; ; count++) {
      if (syntax.block) yield* source.skipSpace();
      if (count > 0 && syntax.block && (yield* source.accept(...syntax.block.end))) return true;
      const hasCall = (yield* source.peekAny(syntax.begin)) !== undefined;
      if (count > 0 && (!hasCall || (yield* source.peek()) === '')) return true;
      if (!hasCall || !(yield* readNamedCall(source, collector, syntax))) return false;
      source.hold();
      yield* source.skipSpace();
      yield* source.accept(...syntax.end);
      source.hold();
      if (!syntax.block) return true;
    }
  };

function* readNamedCall(
  source: TextStream,
  collector: DeltaCollector,
  syntax: NamedCallSyntax,
): IncrementalParse<boolean> {
  yield* source.accept(...syntax.begin);
  yield* source.skipSpace();
  const writtenName = yield* readName(source);
  const name = syntax.nameOf?.(writtenName) ?? writtenName;
  if (!collector.tools.has(name)) return false;
  let id = syntax.idOf?.(writtenName);
  if (syntax.idAfter !== undefined && (yield* source.accept(syntax.idAfter))) id = yield* readName(source);
  yield* source.skipSpace();
  if (!(yield* source.accept(...syntax.separators))) return false;
  yield* source.skipSpace();
  if ((yield* source.peek()) !== '{') return false;
  collector.startCall(name, id === '' ? undefined : id);
  return yield* readArguments(source, collector);
}

/** `[TOOL_CALLS]name[ARGS]{...}`, also with `[CALL_ID]id`: Mistral since Small 3.1, Devstral, Ministral. */
export const mistralNamed: ToolCallFormat = {
  name: 'mistral-named',
  isUsedBy: ({ call }) => /\[TOOL_CALLS\]probe_tool\[(?:ARGS|CALL_ID)\]/.test(call),
  triggers: ['[TOOL_CALLS]'],
  markers: ['[ARGS]', '[CALL_ID]'],
  readCalls: createNamedCallReader({
    begin: ['[TOOL_CALLS]'],
    separators: ['[ARGS]'],
    end: [],
    idAfter: '[CALL_ID]',
  }),
  grammar: {
    triggers: ['[TOOL_CALLS]'],
    separator: '',
    buildCallTag: (tool) => ({
      type: 'tag',
      begin: `[TOOL_CALLS]${tool.name}[ARGS]`,
      content: jsonArgumentsFormat(tool),
      end: '',
    }),
  },
};

/** `<function=name>{...}</function>`: Functionary 3.1, and Llama 3.1's second format. */
export const functionTag: ToolCallFormat = {
  name: 'function-tag',
  isUsedBy: ({ call }) => /<function=probe_tool>\s*\{/.test(call),
  triggers: ['<function='],
  markers: ['</function>'],
  readCalls: createNamedCallReader({ begin: ['<function='], separators: ['>'], end: ['</function>'] }),
  grammar: {
    triggers: ['<function='],
    separator: '',
    buildCallTag: (tool) => ({
      type: 'tag',
      begin: `<function=${tool.name}>`,
      content: jsonArgumentsFormat(tool),
      end: '</function>',
    }),
  },
};

const deepSeek = {
  block: { begin: '<｜tool▁calls▁begin｜>', end: '<｜tool▁calls▁end｜>' },
  begin: '<｜tool▁call▁begin｜>',
  separator: '<｜tool▁sep｜>',
  end: '<｜tool▁call▁end｜>',
};
const deepSeekMarkers = [deepSeek.block.end, deepSeek.begin, deepSeek.separator, deepSeek.end];
/** Variants of the first marker that R1 models also write. */
const deepSeekPrefixes = [deepSeek.block.begin, '<｜tool_calls_begin｜>', '<｜tool calls begin｜>'];

const wrapInBlock = (calls: readonly string[], separator: string): string =>
  deepSeek.block.begin + calls.join(separator) + deepSeek.block.end;

/** DeepSeek R1 and V3: the arguments are in a fenced block. */
export const deepSeekFenced: ToolCallFormat = {
  name: 'deepseek-fenced',
  isUsedBy: ({ call }) => /<｜tool▁sep｜>probe_tool\n```json/.test(call),
  triggers: deepSeekPrefixes,
  markers: deepSeekMarkers,
  readCalls: createNamedCallReader({
    block: { begin: deepSeekPrefixes, end: [deepSeek.block.end] },
    begin: [`${deepSeek.begin}function${deepSeek.separator}`],
    separators: ['```json', '```'],
    end: [`\`\`\`${deepSeek.end}`, `\`\`\`\n${deepSeek.end}`, deepSeek.end],
  }),
  serialize: (calls) =>
    wrapInBlock(
      calls.map(
        (call) =>
          `${deepSeek.begin}function${deepSeek.separator}${call.name}\n\`\`\`json\n${call.arguments}\n\`\`\`${deepSeek.end}`,
      ),
      '\n',
    ),
  grammar: {
    triggers: [deepSeek.block.begin],
    block: deepSeek.block,
    separator: '\n',
    buildCallTag: (tool) => ({
      type: 'tag',
      begin: `${deepSeek.begin}function${deepSeek.separator}${tool.name}\n\`\`\`json\n`,
      content: jsonArgumentsFormat(tool),
      end: `\n\`\`\`${deepSeek.end}`,
    }),
  },
};

/** DeepSeek V3.1. */
export const deepSeekNamed: ToolCallFormat = {
  name: 'deepseek-named',
  isUsedBy: ({ call }) => /<｜tool▁call▁begin｜>probe_tool<｜tool▁sep｜>/.test(call),
  triggers: deepSeekPrefixes,
  markers: deepSeekMarkers,
  readCalls: createNamedCallReader({
    block: { begin: deepSeekPrefixes, end: [deepSeek.block.end] },
    begin: [deepSeek.begin],
    separators: [deepSeek.separator],
    end: [deepSeek.end],
  }),
  serialize: (calls) =>
    wrapInBlock(
      calls.map(
        (call) => `${deepSeek.begin}${call.name}${deepSeek.separator}${call.arguments}${deepSeek.end}`,
      ),
      '',
    ),
  grammar: {
    triggers: [deepSeek.block.begin],
    block: deepSeek.block,
    separator: '',
    buildCallTag: (tool) => ({
      type: 'tag',
      begin: `${deepSeek.begin}${tool.name}${deepSeek.separator}`,
      content: jsonArgumentsFormat(tool),
      end: deepSeek.end,
    }),
  },
};

const kimiBlock = { begin: '<|tool_calls_section_begin|>', end: '<|tool_calls_section_end|>' };
const kimi = {
  begin: '<|tool_call_begin|>',
  separator: '<|tool_call_argument_begin|>',
  end: '<|tool_call_end|>',
};

/** Kimi K2: the call's id is `functions.name:index`, and results refer to it. */
export const kimiK2: ToolCallFormat = {
  name: 'kimi',
  isUsedBy: ({ source, call }) =>
    call.includes(`${kimi.begin}functions.probe_tool`) || (call === '' && source.includes(kimi.begin)),
  triggers: [kimiBlock.begin],
  markers: [kimiBlock.end, kimi.begin, kimi.separator, kimi.end],
  readCalls: createNamedCallReader({
    block: { begin: [kimiBlock.begin], end: [kimiBlock.end] },
    begin: [kimi.begin],
    separators: [kimi.separator],
    end: [kimi.end],
    nameOf: (writtenName) => writtenName.replace(/^functions\./, '').replace(/:\d+$/, ''),
    idOf: (writtenName) => (/:\d+$/.test(writtenName) ? writtenName : undefined),
  }),
  serialize: (calls) =>
    `${kimiBlock.begin}${calls
      .map(
        (call, at) =>
          `${kimi.begin}functions.${call.name}:${at}${kimi.separator}${call.arguments}${kimi.end}`,
      )
      .join('')}${kimiBlock.end}`,
  grammar: {
    triggers: [kimiBlock.begin],
    block: kimiBlock,
    separator: '',
    buildCallTag: (tool) => ({
      type: 'tag',
      begin: `${kimi.begin}functions.${tool.name}:`,
      content: {
        type: 'sequence',
        elements: [
          { type: 'regex', pattern: '[0-9]{1,3}' },
          { type: 'const_string', value: kimi.separator },
          jsonArgumentsFormat(tool),
        ],
      },
      end: kimi.end,
    }),
  },
};
