import { isPortableName } from '../words/portable-name.ts';

/** `OWNER/NAME[:FILE][@REVISION]`: a hub repository, a file or quantization in it, and a branch, tag or commit. */
export interface Reference {
  readonly repo: string;
  readonly file?: string;
  readonly revision?: string;
}

/** Parses a reference. Undefined if the text is not one. */
export const parseReference = (text: string): Reference | undefined => {
  const [, repo, file, revision] = /^([\w.-]+\/[\w.-]+)(?::([^@]+))?(?:@(.+))?$/.exec(text) ?? [];
  if (repo === undefined || repo.includes('..') || !repo.split('/').every(isPortableName)) return undefined;
  return {
    repo,
    ...(file === undefined ? {} : { file }),
    ...(revision === undefined ? {} : { revision }),
  };
};

export const hubPrefix = 'hf:';
