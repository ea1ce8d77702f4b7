import { describe, expect, it } from 'vitest';
import { createTokenizer } from '../../src/engine/tokenizer/index.ts';

/** A vocabulary of these tokens, after three letters. */
const withTokens = (tokens: readonly string[], named: Readonly<Record<string, number>> = {}) =>
  createTokenizer(
    new Map<string, string | number | string[]>([
      ['tokenizer.ggml.model', 'gpt2'],
      ['tokenizer.ggml.tokens', ['a', 'b', 'c', ...tokens]],
      ['tokenizer.ggml.merges', ['']],
      ...Object.entries(named).map(([name, id]) => [`tokenizer.ggml.${name}_token_id`, id] as const),
    ]),
  );

describe('tokens for filling in the middle', () => {
  it.each([
    [
      'Qwen2.5-Coder',
      '<|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|>',
      [3, 5, 4, 7, 8, 6],
    ],
    [
      'StarCoder',
      '<fim_prefix> <fim_middle> <fim_suffix> <fim_pad> <repo_name> <file_sep>',
      [3, 5, 4, 7, 8, 6],
    ],
    ['Granite', '<fim_prefix> <fim_middle> <fim_suffix> <fim_pad> <reponame>', [3, 5, 4, 7, undefined, 6]],
    ['CodeLlama', '▁<PRE> ▁<MID> ▁<SUF> ▁<EOT>', [3, 5, 4, undefined, undefined, undefined]],
    [
      'DeepSeek-Coder',
      '<｜fim▁hole｜> <｜fim▁begin｜> <｜fim▁end｜>',
      [4, 3, 5, undefined, undefined, undefined],
    ],
    [
      'CodeGemma',
      '<|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|file_separator|>',
      [3, 5, 4, undefined, 6, undefined],
    ],
  ])('%s', (_, tokens, [prefix, suffix, middle, repo, separator, pad]) => {
    expect(withTokens(tokens.split(' ')).fim).toEqual({ prefix, suffix, middle, repo, separator, pad });
  });

  it('the metadata takes precedence over the token texts, under its newer and older names', () => {
    const tokens = ['<PRE>', '<SUF>', '<MID>', 'x', 'y', 'z'];
    expect(
      withTokens(tokens, { fim_pre: 6, fim_suf: 7, fim_mid: 8, fim_rep: 0, fim_sep: 1, fim_pad: 2 }).fim,
    ).toEqual({
      prefix: 6,
      suffix: 7,
      middle: 8,
      repo: 0,
      separator: 1,
      pad: 2,
    });
    expect(withTokens(tokens, { prefix: 6, suffix: 7, middle: 8 }).fim).toMatchObject({
      prefix: 6,
      suffix: 7,
      middle: 8,
    });
    expect(withTokens(tokens, { fim_pre: 99 }).fim).toMatchObject({ prefix: 3 });
  });

  it('a vocabulary that lacks one of the three has none', () => {
    expect(withTokens(['<PRE>', '<SUF>']).fim).toBeUndefined();
    expect(withTokens([]).fim).toBeUndefined();
  });

  it('they are control tokens whatever the file declares, and the file separators end an answer', () => {
    const tokenizer = withTokens(['<fim_prefix>', '<fim_suffix>', '<fim_middle>', '<fim_pad>', '<file_sep>']);
    for (const id of [3, 4, 5, 6, 7]) expect(tokenizer.isControl(id)).toBe(true);
    expect([3, 4, 5, 6, 7].filter((id) => tokenizer.endIds.has(id))).toEqual([6, 7]);
  });
});
