/** A database URL for messages: without the user, password and options of `postgres://USER:PASSWORD@HOST/NAME?...`. */
export const redactDatabaseUrl = (url: string): string =>
  url.startsWith('sqlite:') ? url : url.replace(/\?.*$/s, '').replace(/^(\w+:\/\/)(?:.*@)?/s, '$1');
