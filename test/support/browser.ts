import { type Browser, chromium, type Page } from 'playwright-core';
import { chromiumPath } from '../../scripts/chromium.mjs';

/** Why the tests of the pages are skipped; undefined where they run. */
export const noBrowser: string | undefined =
  chromiumPath() === undefined ? 'no Chromium here; npm run setup:services installs it' : undefined;

/** Limit of one wait for a page, whose shaders may have to compile meanwhile: it ends only what hangs. */
const limitMs = 300_000;

export interface PageOptions {
  readonly width?: number;
  readonly height?: number;
  readonly dark?: boolean;
  /** Of the page: what it may talk to; anything else is told by `faults`. */
  readonly url: string;
}

/** A page, and all it did that a page must not do. */
export interface WatchedPage {
  readonly page: Page;
  /** Errors of the console, exceptions nobody caught, requests to other origins. Emptied by taking them. */
  readonly faults: () => string[];
  readonly close: () => Promise<void>;
}

/** Debian's Chromium, with WebGPU on its software adapter. */
export class TestBrowser {
  readonly #browser: Browser;

  private constructor(browser: Browser) {
    this.#browser = browser;
  }

  /** @param webgpu false: a browser that has none */
  static async open({ webgpu = true } = {}): Promise<TestBrowser> {
    const executablePath = chromiumPath();
    if (executablePath === undefined) throw new Error(noBrowser);
    const browser = await chromium.launch({
      executablePath,
      timeout: limitMs,
      args: [
        '--no-sandbox',
        // Containers have little of it.
        '--disable-dev-shm-usage',
        ...(webgpu
          ? ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader']
          : ['--disable-features=WebGPU', '--disable-gpu']),
        // It must ask nobody but the page's own host.
        '--no-first-run',
        '--disable-quic',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
      ],
    });
    return new TestBrowser(browser);
  }

  async page({ url, width = 1280, height = 900, dark = false }: PageOptions): Promise<WatchedPage> {
    const context = await this.#browser.newContext({
      viewport: { width, height },
      colorScheme: dark ? 'dark' : 'light',
      reducedMotion: 'reduce',
    });
    // A locator that finds nothing is to be named, before the test itself runs out of time.
    context.setDefaultTimeout(limitMs);
    const page = await context.newPage();
    const { origin } = new URL(url);
    let faults: string[] = [];
    page.on('console', (message) => {
      if (message.type() === 'error') faults.push(`console: ${message.text()} (${message.location().url})`);
    });
    page.on('pageerror', (error) => faults.push(`exception: ${error.message}`));
    page.on('request', (request) => {
      const asked = request.url();
      if (!/^(?:data|blob):/.test(asked) && new URL(asked).origin !== origin)
        faults.push(`request: ${asked}`);
    });
    await page.goto(url);
    return {
      page,
      faults() {
        const taken = faults;
        faults = [];
        return taken;
      },
      close: () => context.close(),
    };
  }

  close(): Promise<void> {
    return this.#browser.close();
  }
}
