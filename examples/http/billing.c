// A test in C: a commit gets NOT_COORDINATOR twice, and is repeated; after a week it has expired.
#include <curl/curl.h>
#include <err.h>
#include <librdkafka/rdkafka.h>
#define BROKER "http://127.0.0.1:8080/brokers/main"

static void post(const char *url) {
    CURL *request = curl_easy_init();
    curl_easy_setopt(request, CURLOPT_URL, url);
    curl_easy_setopt(request, CURLOPT_POSTFIELDS, "");
    curl_easy_setopt(request, CURLOPT_FAILONERROR, 1L);
    if (curl_easy_perform(request)) errx(1, "%s: refused", url);
    curl_easy_cleanup(request);
}

int main(void) {
    post(BROKER "/faults/error?api=OffsetCommit&error=NOT_COORDINATOR&n=2");
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "bootstrap.servers", "127.0.0.1:9092", NULL, 0);
    rd_kafka_conf_set(conf, "group.id", "billing", NULL, 0);
    rd_kafka_t *consumer = rd_kafka_new(RD_KAFKA_CONSUMER, conf, NULL, 0);
    rd_kafka_topic_partition_t seven = {.topic = "orders", .offset = 7};
    rd_kafka_topic_partition_list_t offsets = {.cnt = 1, .size = 1, .elems = &seven};
    if (rd_kafka_commit(consumer, &offsets, 0)) errx(1, "the commit is refused");
    post(BROKER "/faults/1/wait?hits=2&timeout=0");
    post(BROKER "/clock/advance?days=8");
    post(BROKER "/assert_committed?group=billing&expected=orders:0:null");
    rd_kafka_destroy(consumer);
}
