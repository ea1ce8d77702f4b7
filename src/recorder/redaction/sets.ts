import { secretKinds } from '../../signing/secret.ts';
import { base64Of } from './base64.ts';

/**
 * Sets of patterns of our own, which policies name. They are JavaScript's, which is some thirty times as quick as RE2 is
 * here; so each of them must take time in proportion to the text, whatever the text: what comes before a piece that may
 * be missing is bounded, or begins at one place of a run only.
 */
export interface RedactionSet {
  /** Without it in a text there is no match: quickly looked for. */
  readonly needs?: string;
  readonly patterns: readonly RegExp[];
  /** Names of attributes whose values are never kept, whatever they look like. */
  readonly names?: RegExp;
}

/** Of PEM and of PGP; without an end, all the rest. */
const privateKey =
  /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|$)/g;

/** Signed or encrypted; one that lost its last part, too. */
const jsonWebToken = /(?<![\w-])(?=[\w-]*eyJ)[\w-]+(?:\.[\w-]{8,}){1,4}/g;

/**
 * Secrets that a host minted, as they are and in base64, wherever they begin in what was encoded. They are redacted
 * whatever the policy: of most of them the host keeps a hash and nothing that it could look for.
 */
export const mintedSecrets: readonly RegExp[] = [
  new RegExp(`lathe_(?:${secretKinds.join('|')})_[\\w-]{43}`, 'g'),
  // 43 characters are 57 of base64, and a part of one before them and behind them.
  new RegExp(
    `(?:${secretKinds.flatMap((kind) => base64Of(Buffer.from(`lathe_${kind}_`))).join('|')})[\\w+/-]{57,59}`,
    'g',
  ),
];

/** What many services begin their keys with; in JSON a line's beginning stands behind `\n`. */
const servicesKey = /(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt]))(?:sk|pk|rk)[-_][\w-]{16,}/g;
/** These are nobody's word, wherever they stand. */
const markedKey =
  /(?:AKIA|ASIA)[0-9A-Z]{16}|whsec_[\w+/=-]{16,}|gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|gl(?:pat|ptt|rt|dt)-[\w-]{16,}|xox[abeoprs]-[\w-]{10,}|xapp-[\w-]{10,}|AIza[\w-]{30,}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{16,}|hf_[A-Za-z0-9]{20,}|gsk_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{20,}|pypi-[\w-]{20,}|dop_v1_[a-f0-9]{20,}|SG\.[\w-]{16,64}\.[\w-]{16,}|lathe_[a-z]{1,20}_[\w-]{16,}/g;

const authorization =
  /\b(?:bearer\s{1,8}[\w.~+/=-]{8,}|authorization["'\\]{0,4}\s{0,8}[:=]\s{0,8}["'\\]{0,4}(?:\w{1,20}\s{1,8})?[^\s"'\\,;]{8,})/gi;

/** `postgres://user:password@`, up to and with the `@`. */
const connection = /[a-z][a-z0-9+.-]{1,30}:\/\/[^\s:/@"'<>]{0,128}:[^\s"'<>]{1,256}@/gi;

/** `password=...` in any spelling. */
const password =
  /(?:passw(?:or)?d|passphrase|\bpwd)["'\\]{0,4}\s{0,4}(?:=>|:=|[:=])\s{0,4}["'\\]{0,4}[^\s"'\\,;&]{4,}/gi;
/** Of other secrets a value without a digit is rather a word. */
const assigned =
  /(?:api[_-]?key|secret(?:[_-]?key)?|[_-]token|\btoken|private[_-]?key|access[_-]?key|account[_-]?key|credentials?)["'\\]{0,4}\s{0,4}(?:=>|:=|[:=])\s{0,4}["'\\]{0,4}(?=[^\s"'\\,;&]{0,200}\d)[^\s"'\\,;&]{8,}/gi;

const email = /[\p{L}\p{N}.!#$%&'*+/=?^_`{|}~-]{1,64}@(?:[\p{L}\p{N}-]{1,63}\.){1,8}\p{L}{2,63}/gu;

export const redactionSets: Readonly<Record<string, RedactionSet>> = {
  '@credentials': {
    patterns: [
      privateKey,
      jsonWebToken,
      servicesKey,
      markedKey,
      authorization,
      connection,
      password,
      assigned,
    ],
    names:
      /^(?:.{0,40}[_-])?(?:authorization|cookie|set-cookie|password|passwd|passphrase|pwd|secret|api[_-]?key|private[_-]?key|access[_-]?key|secret[_-]?key|access[_-]?token|refresh[_-]?token|auth[_-]?token|bearer|credentials?)$/i,
  },
  '@emails': { needs: '@', patterns: [email] },
};
