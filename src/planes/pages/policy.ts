/** Builds a Content-Security-Policy. */
const policy = (rules: Readonly<Record<string, string>>): string =>
  Object.entries({
    'default-src': "'none'",
    'img-src': "'self' data: blob:",
    'font-src': "'self'",
    'worker-src': "'self' blob:",
    'base-uri': "'self'",
    'form-action': "'none'",
    'frame-ancestors': "'none'",
    ...rules,
  })
    .map(([name, value]) => `${name} ${value}`)
    .join('; ');

/** Allows only scripts, styles and connections of the host. The editor's styles carry the nonce. */
export const consolePolicy = (nonce: string, script = ''): string =>
  policy({
    'script-src': `'self'${script}`,
    'style-src': `'self' 'nonce-${nonce}'`,
    'connect-src': "'self'",
  });

/**
 * The demo fetches models from any address the user enters, over TLS or from this machine; its worker uses the policy
 * of its own file.
 */
export const demoPolicy: string = policy({
  'script-src': "'self' 'wasm-unsafe-eval'",
  'style-src': "'self'",
  'connect-src': "'self' blob: https: http://localhost:* http://127.0.0.1:*",
});
