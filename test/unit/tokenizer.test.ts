import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Metadata, ModelFileError } from '../../src/engine/formats/model-file.ts';
import { createTokenizer, type Tokenizer } from '../../src/engine/tokenizer/index.ts';
import { fileURLToPath } from 'node:url';
import { modelsPath } from '../support/shared.ts';
import { everyNth, runsRest } from '../support/tier.ts';
import { bpeMetadata, ggufMetadata } from '../support/tokenizer-files.ts';
import { cpuMs } from '../support/cpu-time.ts';

const embedded = createTokenizer(await ggufMetadata(modelsPath('lathe-tiny-q8_0.gguf')));

const gemma4 = fileURLToPath(new URL('../fixtures/architectures/gemma4/model.gguf', import.meta.url));
/** GGUF token types. */
const type = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const;
type Entry = readonly [text: string, score: number, type: number];

const byteTokens: Entry[] = Array.from({ length: 256 }, (_, byte) => [
  `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`,
  0,
  type.byte,
]);

function pieces(entries: readonly Entry[], more: Record<string, number | boolean> = {}): Metadata {
  const all: Entry[] = [
    ['<unk>', 0, type.unknown],
    ['<s>', 0, type.control],
    ['</s>', 0, type.control],
    ...byteTokens,
    ...entries,
  ];
  return new Map<string, string | number | boolean | string[] | Float32Array | Int32Array>([
    ['tokenizer.ggml.model', 'llama'],
    ['tokenizer.ggml.tokens', all.map((entry) => entry[0])],
    ['tokenizer.ggml.scores', Float32Array.from(all, (entry) => entry[1])],
    ['tokenizer.ggml.token_type', Int32Array.from(all, (entry) => entry[2])],
    ...Object.entries(more).map(([name, value]) => [`tokenizer.ggml.${name}`, value] as const),
  ]);
}

const letters: Entry[] = Array.from('▁abcdeHlo', (char, i) => [char, -100 - i, type.normal]);
const small = createTokenizer(
  pieces([
    ...letters,
    ['▁a', -1, type.normal],
    ['ab', -2, type.normal],
    ['bc', -1.5, type.normal],
    ['abc', -3, type.normal],
    ['▁▁', -4, type.normal],
    ['▁▁▁▁', -5, type.normal],
    ['<s', -6, type.normal],
    ['<', -7, type.normal],
    ['s', -8, type.normal],
    ['>', -9, type.normal],
    ['<tag>', 0, type.userDefined],
  ]),
);

const spelled = (tokenizer: Tokenizer, text: string, options = {}) =>
  tokenizer.encode(text, options).map((id) => tokenizer.tokenText(id));

const anyText = fc.string({ unit: 'binary', maxLength: 60 });

describe('GGUF files of Gemma 4', () => {
  it('have call and channel delimiters as text tokens, which message text never becomes', async () => {
    const metadata = new Map(await ggufMetadata(gemma4));
    const mark = (metadata.get('tokenizer.ggml.tokens') as string[]).indexOf('<|tool_call>');
    const types = Int32Array.from(metadata.get('tokenizer.ggml.token_type') as Int32Array);
    types[mark] = type.userDefined;
    metadata.set('tokenizer.ggml.token_type', types);
    const tokenizer = createTokenizer(metadata);
    expect(tokenizer.isControl(mark)).toBe(true);
    expect(tokenizer.encode('a <|tool_call> b')).not.toContain(mark);
    expect(tokenizer.encode('a <|tool_call> b', { parseSpecial: true })).toContain(mark);
  });
});

describe('decoding', () => {
  it('byte-level BPE decodes to the encoded text', () => {
    fc.assert(
      fc.property(anyText, fc.boolean(), (text, parseSpecial) => {
        const ids = embedded.encode(text, { parseSpecial });
        expect(embedded.decode(ids, { special: true })).toBe(text);
      }),
      { numRuns: 500 },
    );
  });

  it('SentencePiece decodes to the encoded text with a leading space', () => {
    fc.assert(
      // The vocabulary writes spaces as ▁, so a ▁ itself comes back as a space.
      fc.property(anyText, (text) => {
        expect(small.decode(small.encode(text))).toBe(text === '' ? '' : ` ${text}`.replaceAll('▁', ' '));
      }),
      { numRuns: 500 },
    );
  });

  it.each([
    ['byte-level BPE', embedded],
    ['SentencePiece', small],
  ])('%s: streamed text concatenates to the decoded text, for any ids', (_, tokenizer) => {
    fc.assert(
      fc.property(fc.array(fc.nat(tokenizer.vocabSize - 1), { maxLength: 60 }), (ids) => {
        const stream = tokenizer.stream();
        const streamed = ids.map((id) => stream.push(id)).join('') + stream.flush();
        expect(streamed).toBe(tokenizer.decode(ids));
      }),
      { numRuns: 500 },
    );
  });

  it('a stream never splits a character', () => {
    const stream = small.stream();
    const given = [...new TextEncoder().encode('é😀')].map((byte) => stream.push(3 + byte));
    expect(given).toEqual(['', 'é', '', '', '', '😀']);
    expect(stream.flush()).toBe('');
  });

  it('incomplete and invalid bytes become U+FFFD, as in TextDecoder', () => {
    const bytes = [0xf0, 0x9f, 0x98, 0x41, 0xff, 0xe2, 0x82];
    const stream = small.stream();
    const streamed = bytes.map((byte) => stream.push(3 + byte)).join('') + stream.flush();
    expect(streamed).toBe(new TextDecoder().decode(Uint8Array.from(bytes)));
    expect(streamed).toBe('\ufffdA\ufffd\ufffd');
  });

  it('special tokens are omitted unless requested', () => {
    expect(small.decode([1, 0, 3 + 0x41, 2])).toBe('A');
    expect(small.decode([1, 3 + 0x41, 2], { special: true })).toBe('<s>A</s>');
    expect(small.tokenBytes(1)).toEqual(new Uint8Array(0));
    expect(small.isControl(1)).toBe(true);
    expect(small.isControl(3 + 0x41)).toBe(false);
  });

  it('a leading U+FEFF is text', () => {
    expect(embedded.decode(embedded.encode('\ufeffa'))).toBe('\ufeffa');
  });

  it('an id outside the vocabulary is refused with its range', () => {
    expect(() => embedded.tokenBytes(99_999)).toThrow('token id 99999 is outside the vocabulary (0 to 2047)');
    expect(() => embedded.decode([-1])).toThrow(RangeError);
  });
});

describe('SentencePiece', () => {
  it('merges the best score first', () => {
    // bc (-1.5) before ab (-2); then nothing joins a and bc but abc (-3).
    expect(spelled(small, 'abc', { addSpecial: false })).toEqual(['▁a', 'bc']);
    expect(spelled(small, 'cabc')).toEqual(['▁', 'c', 'abc']);
    expect(spelled(small, 'cab')).toEqual(['▁', 'c', 'ab']);
  });

  it('merges across spaces when the vocabulary has such tokens', () => {
    expect(spelled(small, 'a     c')).toEqual(['▁a', '▁▁▁▁', '▁', 'c']);
  });

  it('finds a token that spans the end of a word', () => {
    const crossing = createTokenizer(
      pieces([...letters, ['a▁', -2, type.normal], ['a▁b', -3, type.normal], ['▁b', -4, type.normal]]),
    );
    expect(spelled(crossing, 'a b')).toEqual(['▁', 'a▁b']);
    expect(spelled(crossing, 'c b')).toEqual(['▁', 'c', '▁b']);
  });

  it('encodes characters without a token as byte tokens', () => {
    expect(spelled(small, 'é')).toEqual(['▁', '<0xC3>', '<0xA9>']);
  });

  it('adds a space before a text and after each special token when the metadata requires it', () => {
    expect(spelled(small, 'a<s>a', { parseSpecial: true })).toEqual(['▁a', '<s>', '▁a']);
    expect(spelled(small, 'a<tag>a')).toEqual(['▁a', '<tag>', '▁a']);
    const bare = createTokenizer(pieces(letters, { add_space_prefix: false }));
    expect(spelled(bare, 'a')).toEqual(['a']);
    expect(small.encode('')).toEqual([]);
  });

  it('never encodes text as a control or byte token with the same text', () => {
    expect(spelled(small, '<s>')).toEqual(['▁', '<s', '>']);
    expect(small.encode('<0x41>')).not.toContain(3 + 0x41);
  });

  it('adds BOS but not EOS by default, and follows the metadata', () => {
    expect(spelled(small, 'a', { addSpecial: true })).toEqual(['<s>', '▁a']);
    const other = createTokenizer(pieces(letters, { add_bos_token: false, add_eos_token: true }));
    expect(spelled(other, 'a', { addSpecial: true })).toEqual(['▁', 'a', '</s>']);
  });
});

describe('special tokens', () => {
  const metadata = (special: Record<string, number>, more: Record<string, number | boolean> = {}) =>
    bpeMetadata({
      pre: 'default',
      vocabulary: { a: 0, b: 1, '<': 2, '>': 3, Ġ: 4, Ċ: 5 },
      merges: ['a b'],
      special,
      more,
    });

  it('are text unless parseSpecial is set', () => {
    expect(spelled(embedded, '<|im_end|>', { parseSpecial: true })).toEqual(['<|im_end|>']);
    const ids = embedded.encode('<|im_end|>');
    expect(ids.length).toBeGreaterThan(1);
    expect(ids.some((id) => embedded.isControl(id))).toBe(false);
  });

  it('the longest that starts at a position wins', () => {
    const tokenizer = createTokenizer(metadata({ '<a': 10, '<a>': 11, '<a>b>': 12, 'b>': 13 }));
    const ids = tokenizer.encode('<a>b<a><a>b>', { parseSpecial: true });
    expect(ids).toEqual([11, 1, 11, 12]);
  });

  it('thousands of them are found in linear time in a similar text', async () => {
    const special: Record<string, number> = {};
    for (let i = 0; i < 5000; i++) special[`<|reserved_${i}|>`] = 10 + i;
    const tokenizer = createTokenizer(metadata(special));
    const encode = (times: number) => {
      const ids = tokenizer.encode('<|reserved_<|reserved_7|>'.repeat(times), { parseSpecial: true });
      expect(ids.filter((id) => id === 17).length).toBe(times);
    };
    encode(1000);
    const tenth = await cpuMs(() => encode(10_000));
    // Ten times as much; a hundred times where each is compared with each.
    expect(await cpuMs(() => encode(100_000))).toBeLessThan(50 * tenth);
  });

  it('BOS and EOS are added as the metadata says', () => {
    const ids = { '[B]': 10, '[E]': 11 };
    const both = { bos_token_id: 10, eos_token_id: 11 };
    const encode = (more: Record<string, number | boolean>) =>
      createTokenizer(metadata(ids, { ...both, ...more })).encode('a', { addSpecial: true });
    expect(encode({})).toEqual([0]);
    expect(encode({ add_bos_token: true })).toEqual([10, 0]);
    expect(encode({ add_bos_token: true, add_eos_token: true })).toEqual([10, 0, 11]);
  });

  it('end tokens come from the metadata and from well-known names', () => {
    const ends = (special: Record<string, number>, more: Record<string, number> = {}) =>
      [...createTokenizer(metadata(special, more)).endIds].toSorted((a, b) => a - b);
    expect(
      ends({ '[E]': 10, '[T]': 11, '[M]': 12 }, { eos_token_id: 10, eot_token_id: 11, eom_token_id: 12 }),
    ).toEqual([10, 11, 12]);
    expect(ends({ '<|eot_id|>': 10, '<|im_end|>': 11, '<end_of_turn>': 12, '</s>': 13, '<x>': 14 })).toEqual([
      10, 11, 12, 13,
    ]);
    expect(ends({ '<|end|>': 10 })).toEqual([10]);
    // gpt-oss ends each message of an answer with it.
    expect(ends({ '<|end|>': 10, '<|return|>': 11, '<|call|>': 12 })).toEqual([11, 12]);
    expect(ends({ a1: 10 }, { eos_token_id: 99 })).toEqual([]);
  });

  it('a well-known one is a control token even if the file marks it as text', () => {
    const vocabulary = { a: 0, '<|im_end|>': 1, '<fim_prefix>': 2, '</s>': 3 };
    const plain = createTokenizer(bpeMetadata({ pre: 'default', vocabulary, merges: ['a a'] }));
    expect(plain.encode('a<|im_end|><fim_prefix>', { parseSpecial: true })).toEqual([0, 1, 2]);
    expect(plain.decode([0, 1, 2, 3])).toBe('a');
    // Gemma 4 has </s> as a tag of HTML.
    const gemma = { ...vocabulary, '<|tool_response>': 4 };
    const tokenizer = createTokenizer(bpeMetadata({ pre: 'default', vocabulary: gemma, merges: ['a a'] }));
    expect(tokenizer.decode([0, 3])).toBe('a</s>');
    expect(tokenizer.endIds.has(3)).toBe(false);
  });

  it('of Phi-3 remove the line breaks after them', () => {
    const phi = new Map(metadata({ '<|user|>': 10, '<|end|>': 11, '<s>': 12 }));
    phi.set('general.name', 'Phi3');
    const encode = (text: string) => createTokenizer(phi).encode(text, { parseSpecial: true });
    expect(encode('<|user|>\n \nab<|end|>\n')).toEqual([10, ...encode('ab'), 11]);
    expect(encode('<s>\n')).toEqual([12, 5]);
  });
});

describe('unusual texts', () => {
  it('a lone surrogate is U+FFFD', () => {
    expect(embedded.encode('a\ud800b')).toEqual(embedded.encode('a\ufffdb'));
  });

  it('a byte without a token becomes the unknown token, or is dropped', () => {
    const vocabulary = { a: 0, '[U]': 1 };
    const merges = ['a a'];
    expect(createTokenizer(bpeMetadata({ pre: 'default', vocabulary, merges })).encode('aza')).toEqual([
      0, 0,
    ]);
    const withUnknown = bpeMetadata({ pre: 'default', vocabulary, merges, more: { unknown_token_id: 1 } });
    expect(createTokenizer(withUnknown).encode('aza')).toEqual([0, 1, 0]);
  });

  const long: readonly (readonly [string, number])[] = [
    ['a', 10_000_000],
    ['漢', 3_333_333],
    ['😀', 2_500_000],
  ];
  it.each(everyNth(long, 3))('10 MB of %s are encoded and decoded within seconds', (char, count) => {
    const text = char.repeat(count);
    const ids = embedded.encode(text);
    expect(embedded.decode(ids) === text).toBe(true);
  });

  it.runIf(runsRest)('SentencePiece encodes 10 MB without a space', () => {
    const text = 'abc'.repeat(3_333_333);
    expect(small.encode(text).length).toBe(3_333_334);
  });
});

describe('unsupported metadata', () => {
  const without = (name: string) => {
    const metadata = new Map(bpeMetadata({ pre: 'default', vocabulary: { a: 0 }, merges: ['a a'] }));
    metadata.delete(`tokenizer.ggml.${name}`);
    return metadata;
  };

  it('an unknown kind or pre-tokenizer is refused with the supported ones', () => {
    const rwkv = new Map([['tokenizer.ggml.model', 'rwkv']]);
    expect(() => createTokenizer(rwkv)).toThrow(
      "unknown tokenizer 'rwkv' (supported: gpt2, llama, gemma4, bert, t5)",
    );
    expect(() => createTokenizer(without('model'))).toThrow(/has no tokenizer\.ggml\.model \(supported/);
    const odd = bpeMetadata({ pre: 'odd', vocabulary: { a: 0 }, merges: ['a a'] });
    expect(() => createTokenizer(odd)).toThrow(
      expect.objectContaining({
        code: 'unsupported_tokenizer',
        message: expect.stringMatching(/'odd' \(supported: .*/),
      }),
    );
  });

  it('missing or short lists are rejected by name', () => {
    expect(() => createTokenizer(without('tokens'))).toThrow(/tokenizer.ggml.tokens/);
    expect(() => createTokenizer(without('merges'))).toThrow(/tokenizer.ggml.merges/);
    const short = new Map(without(''));
    short.set('tokenizer.ggml.token_type', new Int32Array(0));
    expect(() => createTokenizer(short)).toThrow(ModelFileError);
  });
});
