import { createHash } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { webhookKey, webhookSecretRule } from '../../webhooks/sign.ts';
import type { KeyPath } from '../../config/toml-lines.ts';
import type { GatewayConfig } from './types.ts';
import type { ConfigFaults } from './config-faults.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

const maxBytes = 65_536;
/** The characters that a header can carry. */
const singleLine = /^[\x20-\x7e]+$/;

const readErrorMessages: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file; write the secret into it, or correct the path',
  EISDIR: 'it is a directory; name the file in it',
  EACCES: "not allowed to read it; check the file's owner and mode",
};

/** Reads the secrets that a configuration file refers to. Messages never contain a secret. */
export class SecretSources {
  readonly #env: Environment;
  readonly #folder: string;
  readonly #faults: ConfigFaults;

  /** @param folder base of relative paths */
  constructor(env: Environment, folder: string, faults: ConfigFaults) {
    this.#env = env;
    this.#folder = folder;
    this.#faults = faults;
  }

  /** Reads a one-line secret; undefined when neither source is named, or after adding a fault. */
  async read(env: string | undefined, file: string | undefined, at: { env: KeyPath; file: KeyPath }) {
    if (env !== undefined) return this.#readVariable(env, at.env);
    return file === undefined ? undefined : await this.#readFileSecret(file, at.file);
  }

  /** Reads a master key of 32 bytes. Its id is derived from its hash, so it does not depend on where the key is stored. */
  async masterKey(
    env: string | undefined,
    file: string | undefined,
    at: { env: KeyPath; file: KeyPath },
  ): Promise<GatewayConfig['masterKeys'][number] | undefined> {
    const text = await this.read(env, file, at);
    if (text === undefined) return undefined;
    const key = /^[0-9a-f]{64}$/i.test(text) ? Buffer.from(text, 'hex') : Buffer.from(text, 'base64');
    if (key.length === 32 && /^[\w+/-]+={0,2}$/.test(text))
      return { id: `mk_${createHash('sha256').update(key).digest('hex').slice(0, 16)}`, key };
    this.#faults.add(
      env === undefined ? at.file : at.env,
      'must hold 32 random bytes as base64 or hex; `openssl rand -base64 32` makes them',
    );
    return undefined;
  }

  /** Reads the secret of a webhook. @returns its key */
  async webhookKey(
    env: string | undefined,
    file: string | undefined,
    at: { env: KeyPath; file: KeyPath },
  ): Promise<Buffer | undefined> {
    const text = await this.read(env, file, at);
    if (text === undefined) return undefined;
    const key = webhookKey(text);
    if (!key) this.#faults.add(env === undefined ? at.file : at.env, webhookSecretRule);
    return key;
  }

  #readVariable(name: string, path: KeyPath): string | undefined {
    const value = this.#env[name]?.trim();
    if (value) return this.#checkSingleLine(value, `the environment variable ${name}`, path);
    const state = this.#env[name] === undefined ? 'is not set' : 'is empty';
    this.#faults.add(path, `the environment variable ${name} ${state}; set it before the gateway is started`);
    return undefined;
  }

  async #readFileSecret(name: string, path: KeyPath): Promise<string | undefined> {
    const filePath = resolve(this.#folder, name);
    try {
      const found = await stat(filePath);
      if (found.size > maxBytes || found.isCharacterDevice()) {
        const what = found.size > maxBytes ? `${found.size} bytes long` : 'not a file';
        this.#faults.add(
          path,
          `${filePath} is ${what}, so it is not a secret; name a file that holds only the secret`,
        );
        return undefined;
      }
      const value = (await readFile(filePath, 'utf8')).trim();
      if (value !== '') return this.#checkSingleLine(value, filePath, path);
      this.#faults.add(path, `${filePath} is empty; write the secret into it`);
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? String(error.code) : '';
      this.#faults.add(path, `${filePath}: ${readErrorMessages[code] ?? `cannot be read (${code})`}`);
    }
    return undefined;
  }

  #checkSingleLine(value: string, what: string, path: KeyPath): string | undefined {
    if (singleLine.test(value)) return value;
    this.#faults.add(path, `${what} must hold one line of plain characters and nothing else`);
    return undefined;
  }
}
