import { existsSync } from 'node:fs';

const places = [
  process.env.LATHE_CHROMIUM,
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
];

/** The browser that the tests of the pages drive; `LATHE_CHROMIUM` names another. Undefined where there is none. */
export const chromiumPath = () => places.find((path) => path && existsSync(path));
