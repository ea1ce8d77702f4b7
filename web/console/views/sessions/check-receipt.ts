import { canonicalJson } from '../../../../src/signing/canonical-json.ts';

/** Members that verification reads; the digest covers all other members, too. */
export interface SignedReceipt {
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
  readonly check: string;
  /** Undefined: it could not be checked here. */
  readonly ok: boolean | undefined;
  readonly detail: string;
}

/** `prev_digest` of the first receipt of a chain. */
export const chainStart = `sha256:${'0'.repeat(64)}`;

/** Verifies the digest, key and signature of a single receipt. */
export async function checkReceipt(receipt: SignedReceipt, key: ReceiptKey | undefined): Promise<Finding[]> {
  // `crypto.subtle` exists only in secure contexts: https and localhost.
  if ((crypto.subtle as SubtleCrypto | undefined) === undefined)
    return [
      {
        check: 'Signature',
        ok: undefined,
        detail: 'Browsers verify signatures only on pages from https or localhost.',
      },
    ];
  return [await checkDigest(receipt), await checkKey(receipt, key), await checkSignature(receipt, key)];
}

/** Checks that a receipt follows the previous one. `ok` is undefined when the previous one is unknown. */
export function checkLink(receipt: SignedReceipt, previous: SignedReceipt | undefined): Finding {
  const check = 'Chain';
  if (receipt.seq === 1) {
    const ok = receipt.prev_digest === chainStart;
    return {
      check,
      ok,
      detail: ok
        ? 'It is the first receipt.'
        : 'It claims to be the first receipt, but names a previous digest.',
    };
  }
  if (!previous)
    return {
      check,
      ok: undefined,
      detail: 'The previous receipt was not fetched, so this link was not checked.',
    };
  if (previous.seq !== undefined && receipt.seq !== undefined && receipt.seq !== previous.seq + 1)
    return {
      check,
      ok: false,
      detail: `Its number is ${receipt.seq}, but the number of the previous receipt is ${previous.seq}.`,
    };
  const ok = receipt.prev_digest === previous.digest;
  return {
    check,
    ok,
    detail: ok
      ? 'It names the digest of the previous receipt.'
      : 'It does not name the digest of the previous receipt: a receipt was replaced or moved.',
  };
}

async function checkDigest(receipt: SignedReceipt): Promise<Finding> {
  const { digest, signature: _, ...signedMembers } = receipt;
  const check = 'Digest';
  let text: string;
  try {
    text = canonicalJson(signedMembers);
  } catch {
    return { check, ok: false, detail: 'Its members have no canonical JSON.' };
  }
  const computed = `sha256:${hex(await sha256(new TextEncoder().encode(text)))}`;
  return computed === digest
    ? { check, ok: true, detail: 'It is the SHA-256 of the receipt’s members in canonical JSON.' }
    : { check, ok: false, detail: `The members do not match the signed digest: they hash to ${computed}.` };
}

async function checkKey({ signature }: SignedReceipt, key: ReceiptKey | undefined): Promise<Finding> {
  const check = 'Key';
  if (!key) return { check, ok: undefined, detail: 'The host does not publish its signing key.' };
  const computed = `ed25519:${hex(await sha256(bytesOf(key.public_key))).slice(0, 16)}`;
  if (computed !== key.key_id)
    return {
      check,
      ok: false,
      detail: `The host's key has the id ${key.key_id}, but its bytes hash to ${computed}.`,
    };
  return signature.key_id === key.key_id
    ? { check, ok: true, detail: `${key.key_id} is the signing key of this host.` }
    : { check, ok: false, detail: `It is signed by ${signature.key_id}, not by this host's ${key.key_id}.` };
}

async function checkSignature(receipt: SignedReceipt, key: ReceiptKey | undefined): Promise<Finding> {
  const check = 'Signature';
  const { digest, signature } = receipt;
  if (!key) return { check, ok: undefined, detail: 'It cannot be checked without the key.' };
  if (signature.alg !== 'ed25519')
    return { check, ok: false, detail: `It is ${signature.alg}, not ed25519.` };
  let imported: CryptoKey;
  try {
    imported = await crypto.subtle.importKey('raw', bytesOf(key.public_key), 'Ed25519', false, ['verify']);
  } catch {
    return { check, ok: undefined, detail: 'This browser cannot check Ed25519 signatures.' };
  }
  const isValid = await crypto.subtle
    .verify('Ed25519', imported, bytesOf(signature.value), new TextEncoder().encode(digest))
    .catch(() => false);
  return isValid
    ? { check, ok: true, detail: 'It is valid for the digest and the key (Ed25519).' }
    : { check, ok: false, detail: 'It is not valid for the digest and the key.' };
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
