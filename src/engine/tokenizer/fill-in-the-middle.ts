/** The fill-in-the-middle tokens of a code model, which mark the text before and after the missing part. */
export interface FillInTheMiddle {
  readonly prefix: number;
  readonly suffix: number;
  readonly middle: number;
  /** Precedes the name of a repository. */
  readonly repo: number | undefined;
  /** Precedes the name of a file. */
  readonly separator: number | undefined;
  readonly pad: number | undefined;
}

const family = (names: string) => names.split(' ');

/** Texts of these tokens in Qwen2.5-Coder, Granite, StarCoder, DeepSeek-Coder, CodeLlama, CodeGemma and GLM. */
const names: Readonly<Record<keyof FillInTheMiddle, readonly string[]>> = {
  prefix: family('<|fim_prefix|> <fim-prefix> <fim_prefix> <｜fim▁begin｜> <PRE> ▁<PRE> <|code_prefix|>'),
  suffix: family('<|fim_suffix|> <fim-suffix> <fim_suffix> <｜fim▁hole｜> <SUF> ▁<SUF> <|code_suffix|>'),
  middle: family('<|fim_middle|> <fim-middle> <fim_middle> <｜fim▁end｜> <MID> ▁<MID> <|code_middle|>'),
  repo: family('<|fim_repo|> <|repo_name|> <fim-repo> <REPO> <reponame> <repo_name>'),
  separator: family('<|file_sep|> <|file_separator|> <file_sep>'),
  pad: family('<|fim_pad|> <fim-pad> <fim_pad> <PAD> [PAD]'),
};

/** Tokens that start another file or repository, and therefore end a response. */
export const endOfFileNames: readonly string[] = [...names.pad, ...names.repo, ...names.separator];

export const fillInTheMiddleNames: readonly string[] = Object.values(names).flat();

/** Finds the tokens by the metadata, or else by their texts; undefined when one of the three is missing. */
export function fillInTheMiddle(
  ids: ReadonlyMap<string, number>,
  named: (name: string) => number | undefined,
): FillInTheMiddle | undefined {
  const find = (part: keyof FillInTheMiddle, ...keys: readonly string[]) =>
    [...keys.map((key) => named(`${key}_token_id`)), ...names[part].map((text) => ids.get(text))].find(
      (id) => id !== undefined,
    );
  // Files from before 2024-10 have the second keys.
  const prefix = find('prefix', 'fim_pre', 'prefix');
  const suffix = find('suffix', 'fim_suf', 'suffix');
  const middle = find('middle', 'fim_mid', 'middle');
  if (prefix === undefined || suffix === undefined || middle === undefined) return undefined;
  const repo = find('repo', 'fim_rep');
  const separator = find('separator', 'fim_sep');
  return { prefix, suffix, middle, repo, separator, pad: find('pad', 'fim_pad') };
}
