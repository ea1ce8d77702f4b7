/** As messages name it: of `postgres://USER:PASSWORD@HOST/NAME?...` neither the password nor the options, which may hold one. */
export const shownDatabase = (url: string): string =>
  url.startsWith('sqlite:') ? url : url.replace(/\?.*$/s, '').replace(/^(\w+:\/\/)(?:.*@)?/s, '$1');
