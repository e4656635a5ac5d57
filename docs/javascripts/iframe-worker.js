// A browser starts no worker for pages that were opened from a folder, and the search is one: there its script runs in a
// frame of the page, which takes and gives messages as a worker does. Served pages keep the browser's own workers.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #waiting = [];

    constructor(url) {
      super();
      this.#frame.hidden = true;
      document.documentElement.append(this.#frame);
      const inside = this.#frame.contentWindow;
      const run = (address) => new Promise((resolve, reject) => {
        const script = inside.document.createElement("script");
        Object.assign(script, { src: address, onload: resolve, onerror: reject });
        inside.document.head.append(script);
      });
      inside.importScripts = (...urls) => urls.reduce((before, each) => before.then(() => run(each)), Promise.resolve());
      inside.postMessage = (data) => this.#say(this, data);
      run(url).then(() => this.#ready(inside));
    }

    postMessage(data) {
      if (this.#waiting) this.#waiting.push(data);
      else this.#say(this.#frame.contentWindow, data);
    }

    terminate() {
      this.#frame.remove();
    }

    #ready(inside) {
      const waiting = this.#waiting;
      this.#waiting = null;
      waiting.forEach((data) => this.#say(inside, data));
    }

    // Later, as messages are, so that who sends one is done with what it is doing.
    #say(target, data) {
      setTimeout(() => target.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
