/** Builds a Content-Security-Policy. */
export const contentSecurityPolicy = (rules: Readonly<Record<string, string>>): string =>
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
