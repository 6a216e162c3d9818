// A page that was opened from disk may start no worker. Search gets one that runs its script in a hidden frame instead.
// Each side has copies of the other's messages, as with a real worker: search writes into them.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.documentElement.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.tell(data);
      this.ready = new Promise((resolve, reject) => {
        const script = inside.document.createElement("script");
        script.src = new URL(url, location);
        script.onload = resolve;
        script.onerror = reject;
        inside.document.documentElement.append(script);
      });
    }

    postMessage(message) {
      const inside = this.frame.contentWindow;
      const data = structuredClone(message);
      this.ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }

    tell(message) {
      const event = new MessageEvent("message", { data: structuredClone(message) });
      this.onmessage?.(event);
      this.dispatchEvent(event);
    }

    terminate() {
      this.frame.remove();
    }
  };
}
