import { readArguments, readName } from '../parser/call-object.ts';
import type { Sink } from '../parser/sink.ts';
import type { Reading, Source } from '../parser/source.ts';
import { argumentsOf, type ToolStyle } from './style.ts';

/** The syntax of calls that are `begin` name `separator` {arguments} `end`, optionally inside a block. */
interface NamedCalls {
  /** Texts that start a call; models may use any of them. */
  readonly begin: readonly string[];
  readonly separators: readonly string[];
  /** Optional texts after the arguments. */
  readonly end: readonly string[];
  readonly block?: { readonly begin: readonly string[]; readonly end: readonly string[] };
  /** Converts the written name to the tool's name. */
  readonly nameOf?: (written: string) => string;
  /** Extracts the call's id from the written name, if it contains one. */
  readonly idOf?: (written: string) => string | undefined;
  /** Text that precedes a separate id. */
  readonly idAfter?: string;
}

const reader = (calls: NamedCalls) =>
  function* read(source: Source, sink: Sink): Reading<boolean> {
    if (calls.block) yield* source.accept(...calls.block.begin);
    for (let count = 0; ; count++) {
      if (calls.block) yield* source.space();
      if (count > 0 && calls.block && (yield* source.accept(...calls.block.end))) return true;
      const follows = (yield* source.upcoming(calls.begin)) !== undefined;
      if (count > 0 && (!follows || (yield* source.peek()) === '')) return true;
      if (!follows || !(yield* readNamedCall(source, sink, calls))) return false;
      source.hold();
      yield* source.space();
      yield* source.accept(...calls.end);
      source.hold();
      if (!calls.block) return true;
    }
  };

function* readNamedCall(source: Source, sink: Sink, calls: NamedCalls): Reading<boolean> {
  yield* source.accept(...calls.begin);
  yield* source.space();
  const written = yield* readName(source);
  const name = calls.nameOf?.(written) ?? written;
  if (!sink.tools.has(name)) return false;
  let id = calls.idOf?.(written);
  if (calls.idAfter !== undefined && (yield* source.accept(calls.idAfter))) id = yield* readName(source);
  yield* source.space();
  if (!(yield* source.accept(...calls.separators))) return false;
  yield* source.space();
  if ((yield* source.peek()) !== '{') return false;
  sink.call(name, id === '' ? undefined : id);
  return yield* readArguments(source, sink);
}

/** `[TOOL_CALLS]name[ARGS]{...}`, also with `[CALL_ID]id`: Mistral since Small 3.1, Devstral, Ministral. */
export const mistralNamed: ToolStyle = {
  name: 'mistral-named',
  isTaught: ({ call }) => /\[TOOL_CALLS\]probe_tool\[(?:ARGS|CALL_ID)\]/.test(call),
  triggers: ['[TOOL_CALLS]'],
  markers: ['[ARGS]', '[CALL_ID]'],
  read: reader({ begin: ['[TOOL_CALLS]'], separators: ['[ARGS]'], end: [], idAfter: '[CALL_ID]' }),
  grammar: {
    triggers: ['[TOOL_CALLS]'],
    separator: '',
    call: (tool) => ({
      type: 'tag',
      begin: `[TOOL_CALLS]${tool.name}[ARGS]`,
      content: argumentsOf(tool),
      end: '',
    }),
  },
};

/** `<function=name>{...}</function>`: Functionary 3.1, and Llama 3.1's second format. */
export const functionTag: ToolStyle = {
  name: 'function-tag',
  isTaught: ({ call }) => /<function=probe_tool>\s*\{/.test(call),
  triggers: ['<function='],
  markers: ['</function>'],
  read: reader({ begin: ['<function='], separators: ['>'], end: ['</function>'] }),
  grammar: {
    triggers: ['<function='],
    separator: '',
    call: (tool) => ({
      type: 'tag',
      begin: `<function=${tool.name}>`,
      content: argumentsOf(tool),
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
const deepSeekBegins = [deepSeek.block.begin, '<｜tool_calls_begin｜>', '<｜tool calls begin｜>'];

const inBlock = (calls: readonly string[], separator: string): string =>
  deepSeek.block.begin + calls.join(separator) + deepSeek.block.end;

/** DeepSeek R1 and V3: the arguments are in a fenced block. */
export const deepSeekFenced: ToolStyle = {
  name: 'deepseek-fenced',
  isTaught: ({ call }) => /<｜tool▁sep｜>probe_tool\n```json/.test(call),
  triggers: deepSeekBegins,
  markers: deepSeekMarkers,
  read: reader({
    block: { begin: deepSeekBegins, end: [deepSeek.block.end] },
    begin: [`${deepSeek.begin}function${deepSeek.separator}`],
    separators: ['```json', '```'],
    end: [`\`\`\`${deepSeek.end}`, `\`\`\`\n${deepSeek.end}`, deepSeek.end],
  }),
  write: (calls) =>
    inBlock(
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
    call: (tool) => ({
      type: 'tag',
      begin: `${deepSeek.begin}function${deepSeek.separator}${tool.name}\n\`\`\`json\n`,
      content: argumentsOf(tool),
      end: `\n\`\`\`${deepSeek.end}`,
    }),
  },
};

/** DeepSeek V3.1. */
export const deepSeekNamed: ToolStyle = {
  name: 'deepseek-named',
  isTaught: ({ call }) => /<｜tool▁call▁begin｜>probe_tool<｜tool▁sep｜>/.test(call),
  triggers: deepSeekBegins,
  markers: deepSeekMarkers,
  read: reader({
    block: { begin: deepSeekBegins, end: [deepSeek.block.end] },
    begin: [deepSeek.begin],
    separators: [deepSeek.separator],
    end: [deepSeek.end],
  }),
  write: (calls) =>
    inBlock(
      calls.map(
        (call) => `${deepSeek.begin}${call.name}${deepSeek.separator}${call.arguments}${deepSeek.end}`,
      ),
      '',
    ),
  grammar: {
    triggers: [deepSeek.block.begin],
    block: deepSeek.block,
    separator: '',
    call: (tool) => ({
      type: 'tag',
      begin: `${deepSeek.begin}${tool.name}${deepSeek.separator}`,
      content: argumentsOf(tool),
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
export const kimiK2: ToolStyle = {
  name: 'kimi',
  isTaught: ({ source, call }) =>
    call.includes(`${kimi.begin}functions.probe_tool`) || (call === '' && source.includes(kimi.begin)),
  triggers: [kimiBlock.begin],
  markers: [kimiBlock.end, kimi.begin, kimi.separator, kimi.end],
  read: reader({
    block: { begin: [kimiBlock.begin], end: [kimiBlock.end] },
    begin: [kimi.begin],
    separators: [kimi.separator],
    end: [kimi.end],
    nameOf: (written) => written.replace(/^functions\./, '').replace(/:\d+$/, ''),
    idOf: (written) => (/:\d+$/.test(written) ? written : undefined),
  }),
  write: (calls) =>
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
    call: (tool) => ({
      type: 'tag',
      begin: `${kimi.begin}functions.${tool.name}:`,
      content: {
        type: 'sequence',
        elements: [
          { type: 'regex', pattern: '[0-9]{1,3}' },
          { type: 'const_string', value: kimi.separator },
          argumentsOf(tool),
        ],
      },
      end: kimi.end,
    }),
  },
};
