import { canonicalJson } from '../../../../src/signing/canonical-json.ts';

/** Members that verification reads; the digest covers all other members, too. */
export interface Signed {
  readonly digest: string;
  readonly prev_digest: string;
  readonly seq?: number;
  readonly signature: { readonly alg: string; readonly key_id: string; readonly value: string };
}
/** Public key of the host, from its identity card. */
export interface ReceiptKey {
  readonly key_id: string;
  /** Base64 of 32 bytes. */
  readonly public_key: string;
}

export interface Finding {
  readonly what: string;
  /** Undefined: it could not be checked here. */
  readonly ok: boolean | undefined;
  readonly said: string;
}

/** `prev_digest` of the first receipt of a chain. */
export const chainStart = `sha256:${'0'.repeat(64)}`;

/** Verifies the digest, key and signature of a single receipt. */
export async function checkReceipt(receipt: Signed, key: ReceiptKey | undefined): Promise<Finding[]> {
  // `crypto.subtle` exists only in secure contexts: https and localhost.
  if ((crypto.subtle as SubtleCrypto | undefined) === undefined)
    return [
      {
        what: 'Signature',
        ok: undefined,
        said: 'Browsers verify signatures only on pages from https or localhost.',
      },
    ];
  return [await digestFinding(receipt), await keyFinding(receipt, key), await signatureFinding(receipt, key)];
}

/** Checks that a receipt follows the previous one. `ok` is undefined when the previous one is unknown. */
export function linkFinding(receipt: Signed, before: Signed | undefined): Finding {
  const what = 'Chain';
  if (receipt.seq === 1) {
    const ok = receipt.prev_digest === chainStart;
    return {
      what,
      ok,
      said: ok
        ? 'It is the first receipt.'
        : 'It claims to be the first receipt, but names a previous digest.',
    };
  }
  if (!before)
    return {
      what,
      ok: undefined,
      said: 'The previous receipt was not fetched, so this link was not checked.',
    };
  if (before.seq !== undefined && receipt.seq !== undefined && receipt.seq !== before.seq + 1)
    return {
      what,
      ok: false,
      said: `Its number is ${receipt.seq}, but the number of the previous receipt is ${before.seq}.`,
    };
  const ok = receipt.prev_digest === before.digest;
  return {
    what,
    ok,
    said: ok
      ? 'It names the digest of the previous receipt.'
      : 'It does not name the digest of the previous receipt: a receipt was replaced or moved.',
  };
}

async function digestFinding(receipt: Signed): Promise<Finding> {
  const { digest, signature: _, ...signed } = receipt;
  const what = 'Digest';
  let text: string;
  try {
    text = canonicalJson(signed);
  } catch {
    return { what, ok: false, said: 'Its members have no canonical JSON.' };
  }
  const own = `sha256:${hex(await sha256(new TextEncoder().encode(text)))}`;
  return own === digest
    ? { what, ok: true, said: 'It is the SHA-256 of the receipt’s members in canonical JSON.' }
    : { what, ok: false, said: `The members do not match the signed digest: they hash to ${own}.` };
}

async function keyFinding({ signature }: Signed, key: ReceiptKey | undefined): Promise<Finding> {
  const what = 'Key';
  if (!key) return { what, ok: undefined, said: 'The host does not publish its signing key.' };
  const own = `ed25519:${hex(await sha256(bytesOf(key.public_key))).slice(0, 16)}`;
  if (own !== key.key_id)
    return {
      what,
      ok: false,
      said: `The host's key has the id ${key.key_id}, but its bytes hash to ${own}.`,
    };
  return signature.key_id === key.key_id
    ? { what, ok: true, said: `${key.key_id} is the signing key of this host.` }
    : { what, ok: false, said: `It is signed by ${signature.key_id}, not by this host's ${key.key_id}.` };
}

async function signatureFinding(receipt: Signed, key: ReceiptKey | undefined): Promise<Finding> {
  const what = 'Signature';
  const { digest, signature } = receipt;
  if (!key) return { what, ok: undefined, said: 'It cannot be checked without the key.' };
  if (signature.alg !== 'ed25519') return { what, ok: false, said: `It is ${signature.alg}, not ed25519.` };
  let imported: CryptoKey;
  try {
    imported = await crypto.subtle.importKey('raw', bytesOf(key.public_key), 'Ed25519', false, ['verify']);
  } catch {
    return { what, ok: undefined, said: 'This browser cannot check Ed25519 signatures.' };
  }
  const fits = await crypto.subtle
    .verify('Ed25519', imported, bytesOf(signature.value), new TextEncoder().encode(digest))
    .catch(() => false);
  return fits
    ? { what, ok: true, said: 'It is valid for the digest and the key (Ed25519).' }
    : { what, ok: false, said: 'It is not valid for the digest and the key.' };
}

const sha256 = async (bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> =>
  new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));

const hex = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}
