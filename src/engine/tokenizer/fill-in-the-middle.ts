/** The fill-in-the-middle tokens of a code model, which mark the text before and after the missing part. */
export interface FillInTheMiddleTokens {
  readonly prefix: number;
  readonly suffix: number;
  readonly middle: number;
  /** Precedes the name of a repository. */
  readonly repo: number | undefined;
  /** Precedes the name of a file. */
  readonly separator: number | undefined;
  readonly pad: number | undefined;
}

const splitTexts = (tokenTexts: string) => tokenTexts.split(' ');

/** Texts of these tokens in Qwen2.5-Coder, Granite, StarCoder, DeepSeek-Coder, CodeLlama, CodeGemma and GLM. */
const tokenTexts: Readonly<Record<keyof FillInTheMiddleTokens, readonly string[]>> = {
  prefix: splitTexts('<|fim_prefix|> <fim-prefix> <fim_prefix> <｜fim▁begin｜> <PRE> ▁<PRE> <|code_prefix|>'),
  suffix: splitTexts('<|fim_suffix|> <fim-suffix> <fim_suffix> <｜fim▁hole｜> <SUF> ▁<SUF> <|code_suffix|>'),
  middle: splitTexts('<|fim_middle|> <fim-middle> <fim_middle> <｜fim▁end｜> <MID> ▁<MID> <|code_middle|>'),
  repo: splitTexts('<|fim_repo|> <|repo_name|> <fim-repo> <REPO> <reponame> <repo_name>'),
  separator: splitTexts('<|file_sep|> <|file_separator|> <file_sep>'),
  pad: splitTexts('<|fim_pad|> <fim-pad> <fim_pad> <PAD> [PAD]'),
};

/** Tokens that start another file or repository, and therefore end a response. */
export const endOfFileTokenTexts: readonly string[] = [
  ...tokenTexts.pad,
  ...tokenTexts.repo,
  ...tokenTexts.separator,
];

export const fillInTheMiddleTokenTexts: readonly string[] = Object.values(tokenTexts).flat();

/** Finds the tokens by the metadata, or else by their texts; undefined when one of the three is missing. */
export function findFillInTheMiddleTokens(
  ids: ReadonlyMap<string, number>,
  findDeclaredId: (name: string) => number | undefined,
): FillInTheMiddleTokens | undefined {
  const findId = (part: keyof FillInTheMiddleTokens, ...keys: readonly string[]) =>
    [
      ...keys.map((key) => findDeclaredId(`${key}_token_id`)),
      ...tokenTexts[part].map((text) => ids.get(text)),
    ].find((id) => id !== undefined);
  // Files from before 2024-10 have the second keys.
  const prefix = findId('prefix', 'fim_pre', 'prefix');
  const suffix = findId('suffix', 'fim_suf', 'suffix');
  const middle = findId('middle', 'fim_mid', 'middle');
  if (prefix === undefined || suffix === undefined || middle === undefined) return undefined;
  const repo = findId('repo', 'fim_rep');
  const separator = findId('separator', 'fim_sep');
  return { prefix, suffix, middle, repo, separator, pad: findId('pad', 'fim_pad') };
}
