import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import type { Settings } from '../config/toml.ts';
import { UsageError } from '../config/usage.ts';
import { errorMessage } from '../util/error-message.ts';
import { systemCode } from '../util/system-code.ts';

/** Contents of a certificate and its private key, in PEM. */
export interface TlsPair {
  readonly cert: string;
  readonly key: string;
}

/** Interval in ms at which the files are read again. */
const rereadIntervalMs = 10_000;

export interface TlsFilesOptions {
  readonly certPath: string;
  readonly keyPath: string;
  readonly onNotice: (message: string) => void;
}

/**
 * The files of `--tls-cert` and `--tls-key`. They are read again at an interval: watching them would miss a renewal that
 * replaces what a symbolic link names.
 */
export class TlsFiles {
  readonly #options: TlsFilesOptions;
  #current: TlsPair;
  /** A pair that cannot be used. It is reported when it is read again, because a renewal replaces one file first. */
  #unusable: { readonly pair: TlsPair | undefined; readonly isReported: boolean } | undefined;

  private constructor(options: TlsFilesOptions, current: TlsPair) {
    this.#options = options;
    this.#current = current;
  }

  /** Reads the files. Rejects with `UsageError` with every fault. */
  static async open(options: TlsFilesOptions): Promise<TlsFiles> {
    const { pair, faults } = await readPair(options);
    if (!pair || faults.length > 0) throw new UsageError(faults);
    for (const warning of validityWarnings(pair, options)) options.onNotice(warning);
    return new TlsFiles(options, pair);
  }

  get current(): TlsPair {
    return this.#current;
  }

  /** Reads the files again; returns the pair where it is new and usable. Otherwise the current one stays in use. */
  async reread(): Promise<TlsPair | undefined> {
    const { pair, faults } = await readPair(this.#options);
    if (pair && faults.length === 0) {
      this.#unusable = undefined;
      if (isSamePair(pair, this.#current)) return undefined;
      this.#current = pair;
      const until = new X509Certificate(pair.cert).validTo;
      this.#options.onNotice(
        `${this.#options.certPath}: the certificate was reloaded; it is valid until ${until}`,
      );
      for (const warning of validityWarnings(pair, this.#options)) this.#options.onNotice(warning);
      return pair;
    }
    const isRepeated = this.#unusable !== undefined && isSamePair(this.#unusable.pair, pair);
    const isReported = isRepeated && this.#unusable?.isReported === true;
    if (isRepeated && !isReported)
      this.#options.onNotice(
        `the certificate in use stays, because the new files cannot be used: ${faults.join('; ')}`,
      );
    this.#unusable = { pair, isReported: isRepeated };
    return undefined;
  }

  /** Passes every new pair on, until the returned function is called. */
  watch(onChange: (pair: TlsPair) => void): () => void {
    let isReading = false;
    const timer = setInterval(() => {
      if (isReading) return;
      isReading = true;
      void this.reread()
        .then((pair) => pair && onChange(pair))
        .finally(() => {
          isReading = false;
        });
    }, rereadIntervalMs);
    timer.unref();
    return () => clearInterval(timer);
  }
}

/** Opens the files of the settings; undefined where they name none. Rejects with `UsageError` with every fault. */
export async function openTlsFiles(
  { tls_cert: certPath, tls_key: keyPath }: Pick<Settings, 'tls_cert' | 'tls_key'>,
  onNotice: (message: string) => void,
): Promise<TlsFiles | undefined> {
  if (certPath !== undefined && keyPath !== undefined)
    return await TlsFiles.open({ certPath, keyPath, onNotice });
  if (certPath !== undefined)
    throw new UsageError(['--tls-cert needs --tls-key, the private key of the certificate']);
  if (keyPath !== undefined) throw new UsageError(['--tls-key needs --tls-cert, the certificate of the key']);
  return undefined;
}

const isSamePair = (one: TlsPair | undefined, other: TlsPair | undefined): boolean =>
  one?.cert === other?.cert && one?.key === other?.key;

async function readPair({ certPath, keyPath }: Pick<TlsFilesOptions, 'certPath' | 'keyPath'>): Promise<{
  readonly pair: TlsPair | undefined;
  readonly faults: readonly string[];
}> {
  const faults: string[] = [];
  const read = async (flag: string, path: string) => {
    try {
      return await readFile(path, 'utf8');
    } catch (error) {
      faults.push(`${flag} ${path}: ${readFaults[systemCode(error) ?? ''] ?? errorMessage(error)}`);
      return undefined;
    }
  };
  const [cert, key] = await Promise.all([read('--tls-cert', certPath), read('--tls-key', keyPath)]);
  let certificate: X509Certificate | undefined;
  let privateKey: KeyObject | undefined;
  try {
    if (cert !== undefined) certificate = new X509Certificate(cert);
  } catch {
    faults.push(`--tls-cert ${certPath}: expected a certificate in PEM, with those of its issuers behind it`);
  }
  try {
    if (key !== undefined) privateKey = createPrivateKey(key);
  } catch {
    faults.push(`--tls-key ${keyPath}: expected a private key in PEM, without a passphrase`);
  }
  if (certificate && privateKey && !certificate.checkPrivateKey(privateKey))
    faults.push(`--tls-key ${keyPath}: the key does not belong to the certificate of --tls-cert ${certPath}`);
  else if (certificate && privateKey) {
    try {
      createSecureContext({ cert, key });
    } catch (error) {
      faults.push(`--tls-cert ${certPath}: it cannot be used: ${errorMessage(error)}`);
    }
  }
  return { pair: cert === undefined || key === undefined ? undefined : { cert, key }, faults };
}

const readFaults: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a directory; name the file in it',
  EACCES: "not allowed to read it; check the file's owner and mode",
};

function validityWarnings({ cert }: TlsPair, { certPath }: Pick<TlsFilesOptions, 'certPath'>): string[] {
  const { validFrom, validTo } = new X509Certificate(cert);
  const now = Date.now();
  if (now > Date.parse(validTo)) return [`--tls-cert ${certPath}: the certificate expired at ${validTo}`];
  return now < Date.parse(validFrom)
    ? [`--tls-cert ${certPath}: the certificate is valid only from ${validFrom}`]
    : [];
}
