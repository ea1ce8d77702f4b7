import { contentSecurityPolicy } from '../../http/content-security-policy.ts';

/** Allows only scripts, styles and connections of the host. The editor's styles carry the nonce. */
export const consolePolicy = (nonce: string, script = ''): string =>
  contentSecurityPolicy({
    'script-src': `'self'${script}`,
    'style-src': `'self' 'nonce-${nonce}'`,
    'connect-src': "'self'",
  });

/**
 * The demo fetches models from any address the user enters, over TLS or from this machine; its worker uses the policy
 * of its own file.
 */
export const demoPolicy: string = contentSecurityPolicy({
  'script-src': "'self' 'wasm-unsafe-eval'",
  'style-src': "'self'",
  'connect-src': "'self' blob: https: http://localhost:* http://127.0.0.1:*",
});
