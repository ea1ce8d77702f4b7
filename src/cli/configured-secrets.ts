import type { Secrets } from '../config/secrets.ts';
import type { GatewayConfig } from '../gateway/config/types.ts';
import type { SigningKey } from '../signing/ed25519.ts';
import { privateKeyEncodings } from '../signing/host-key.ts';
import { readTelemetrySettings } from '../telemetry/settings.ts';
import type { Credentials } from './credentials.ts';

export interface ConfiguredSecretsOptions {
  readonly credentials: Credentials;
  readonly key: SigningKey;
  readonly secrets: Secrets;
  readonly gatewayConfig: GatewayConfig;
  /** `sqlite:PATH` or `postgres://...`. */
  readonly database: string;
  /** `--otlp-endpoint`. */
  readonly collector: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/**
 * Minimum length of a secret that is redacted: a shorter text may be an ordinary word. Tokens of the host and keys of
 * the gateway have their own length rules.
 */
const minSecretLength = 8;

/**
 * The secrets in this host's configuration, which must never be recorded. Secrets that the host mints itself are not
 * listed: the recorder recognizes them by their format.
 * @throws UsageError as `readTelemetrySettings`
 */
export function configuredSecrets(options: ConfiguredSecretsOptions): string[] {
  const { credentials, key, secrets, gatewayConfig, database, collector, env } = options;
  const { masterKeys, providers } = gatewayConfig;
  const { traces, metrics } = readTelemetrySettings(collector, env) ?? {};
  const headers = [traces, metrics].flatMap((signal) => Object.values(signal?.headers ?? {}));
  const secretTexts = [...secrets.redactedTexts, ...headers, ...passwordsOf(database)];
  return [
    ...new Set([
      ...credentials.tokens,
      ...privateKeyEncodings(key),
      ...providers.flatMap(({ apiKey = [] }) => apiKey),
      ...masterKeys.flatMap(({ key: bytes }) =>
        (['hex', 'base64', 'base64url'] as const).map((encoding) => bytes.toString(encoding)),
      ),
      // `Bearer KEY` also counts as the key alone.
      ...secretTexts
        .flatMap((text) => [text, ...text.split(/\s+/)])
        .filter(({ length }) => length >= minSecretLength),
    ]),
  ];
}

/** A password that equals the user name is not treated as a secret, because it may be an ordinary word. */
function passwordsOf(database: string): string[] {
  if (!URL.canParse(database)) return [];
  const { username, password } = new URL(database);
  if (password === username) return [];
  try {
    return [password, decodeURIComponent(password)];
  } catch {
    return [password];
  }
}
